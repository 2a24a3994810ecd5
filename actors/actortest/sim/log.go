package sim

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/consensus/memlog"
	"github.com/concord-kv/concord/messages"
)

// nodeLog is the consensus.Log of one boot of one node: memlog's replica, seen by the
// world. Once the node has crashed it is detached: memlog knows nothing of it any more,
// and what still waits is told unknown, so that the dead node's actors can be stopped.
type nodeLog struct {
	consensus.Log // memlog's; for what is passed on unchanged
	node          *Node

	mu       sync.Mutex
	pending  []*pending // in the order of asking
	asking   []asking
	status   consensus.Status
	detached bool

	ready     chan struct{} // closed once memlog says ready
	readyOnce sync.Once
	closeAsk  chan struct{} // closed when the node wants to be closed
	closeOnce sync.Once
	closedAck chan struct{} // closed once the world has done it
}

type pending struct {
	done func([]*messages.Result, error)
	read func(error)
}

func newNodeLog(n *Node) *nodeLog {
	return &nodeLog{node: n, ready: make(chan struct{}), closeAsk: make(chan struct{}), closedAck: make(chan struct{})}
}

func (l *nodeLog) wait(p *pending) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.detached {
		return false
	}
	l.pending = append(l.pending, p)
	return true
}

// answered takes p out; false if it was told already.
func (l *nodeLog) answered(p *pending) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.pending, p); i >= 0 {
		l.pending = slices.Delete(l.pending, i, i+1)
		return true
	}
	return false
}

// Propose implements consensus.Log.
func (l *nodeLog) Propose(payload []byte, timeout time.Duration, done func([]*messages.Result, error)) {
	p := &pending{done: done}
	if !l.wait(p) {
		done(nil, stopping())
		return
	}
	l.node.world.proposed(l.node, payload)
	l.Log.Propose(payload, timeout, func(r []*messages.Result, err error) {
		if l.answered(p) {
			l.node.world.trace("log n%d answered %d results %v", l.node.id, len(r), messages.CodeOf(err))
			done(r, err)
		}
	})
}

// ReadIndex implements consensus.Log.
func (l *nodeLog) ReadIndex(timeout time.Duration, done func(error)) {
	p := &pending{read: done}
	if !l.wait(p) {
		done(stopping())
		return
	}
	l.Log.ReadIndex(timeout, func(err error) {
		if l.answered(p) {
			l.node.world.trace("log n%d barrier %v", l.node.id, messages.CodeOf(err))
			done(err)
		}
	})
}

// Status implements consensus.Log: as of the last step, for goroutines that look while the
// log goes on.
func (l *nodeLog) Status() consensus.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.detached {
		return consensus.Status{ReplicaID: l.node.id}
	}
	return l.status
}

// publish makes the log's status visible.
func (l *nodeLog) publish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Log != nil && !l.detached {
		l.status = l.Log.Status()
	}
}

// WaitReady implements consensus.Log.
func (l *nodeLog) WaitReady(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-ctx.Done():
		return messages.NewError(messages.Code_CODE_NOT_READY, "not ready in time")
	}
}

// Close implements consensus.Log. The node calls it from a goroutine of its own; the
// world, to which memlog belongs, does the work.
func (l *nodeLog) Close() error {
	l.closeOnce.Do(func() { close(l.closeAsk) })
	<-l.closedAck
	return nil
}

// serveClose does what Close asks for.
func (l *nodeLog) serveClose() {
	select {
	case <-l.closeAsk:
	default:
		return
	}
	select {
	case <-l.closedAck:
		return
	default:
	}
	if !l.detached {
		_ = l.Log.(*memlog.Replica).Close()
		l.detach()
	}
	close(l.closedAck)
}

// detach separates the node from the log and tells what waits.
func (l *nodeLog) detach() {
	l.mu.Lock()
	waiting := l.pending
	asking := l.asking
	l.pending, l.asking, l.detached = nil, nil, true
	l.mu.Unlock()
	for _, a := range asking {
		a.refuse()
	}
	for _, p := range waiting {
		if p.done != nil {
			p.done(nil, messages.UnknownOutcome(messages.Code_CODE_NODE_STOPPING, "the node crashed"))
		} else {
			p.read(stopping())
		}
	}
}

func stopping() *messages.Error {
	return messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node is stopping")
}

// nodeApplier is the consensus.Applier between memlog and the node's: it lets the
// apply actor run until it has answered, and lets the world look at what came of it.
type nodeApplier struct {
	consensus.Applier
	node *Node
}

// Apply implements consensus.Applier.
func (a nodeApplier) Apply(entries []consensus.Entry) {
	a.node.inline(func() { a.Applier.Apply(entries) })
	a.node.world.applied(a.node, entries)
}

// Freeze implements consensus.Applier.
func (a nodeApplier) Freeze() (f consensus.Frozen) {
	a.node.inline(func() { f = a.Applier.Freeze() })
	return f
}

// Restore implements consensus.Applier.
func (a nodeApplier) Restore(index uint64, r io.Reader) (err error) {
	a.node.inline(func() { err = a.Applier.Restore(index, r) })
	a.node.world.restored(a.node, index, err)
	return err
}
