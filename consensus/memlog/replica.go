package memlog

import (
	"context"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// Replica is one boot of one replica: the consensus.Log of a Cluster. After a
// crash, or Close, it answers node_stopping.
type Replica struct {
	c      *Cluster
	n      *node
	boot   uint64
	closed bool

	seq     uint64
	bytes   int
	calls   []*proposal // not yet told, by seq
	queue   []*record   // for Raft to take
	reads   []*readCall
	asked   []uint64 // reads for Raft to take
	target  uint64   // of a transfer to ask for
	changes []*changeCall

	failures []func() // callbacks that are due

	ready    bool
	readying bool
}

var _ consensus.Log = (*Replica)(nil)

type proposal struct {
	seq      uint64
	bytes    int
	deadline int
	done     func([]*messages.Result, error)
	deaf     bool // told only at its deadline
}

type readCall struct {
	id       uint64
	deadline int
	index    uint64
	known    bool // index is
	done     func(error)
}

type changeCall struct {
	seq      uint64
	deadline int
	done     func(error)
}

func (r *Replica) init() { r.askReady() }

func (r *Replica) deadline(timeout time.Duration) int {
	return r.c.now + int((timeout+r.c.cfg.Tick-1)/r.c.cfg.Tick)
}

// gone says whether this boot is over.
func (r *Replica) gone() bool { return r.closed || r.n.removed }

// Propose implements consensus.Log.
func (r *Replica) Propose(payload []byte, timeout time.Duration, done func([]*messages.Result, error)) {
	answer := Normal
	if len(r.n.answers) > 0 && !r.gone() {
		answer, r.n.answers = r.n.answers[0], r.n.answers[1:]
	}
	switch {
	case timeout <= 0:
		done(nil, messages.InvalidField("timeout_ms", "a timeout must be positive"))
		return
	case r.gone():
		done(nil, stopping())
		return
	case answer == Refused, r.bytes > 0 && r.bytes+len(payload) > r.c.cfg.InFlightBytesMax:
		e := messages.NewError(messages.Code_CODE_OVERLOADED, "too many bytes are in flight").WithLimit(uint64(r.c.cfg.InFlightBytesMax))
		e.Detail.RetryAfterMs = 10
		done(nil, e)
		return
	}
	r.seq++
	p := &proposal{seq: r.seq, bytes: len(payload), deadline: r.deadline(timeout), done: done}
	p.deaf = answer == Lost || answer == Forgotten
	r.bytes += p.bytes
	r.calls = append(r.calls, p)
	switch answer {
	case Lost:
	case Dropped:
		r.dropped(origin{r.n.id, r.boot, p.seq})
	default:
		r.queue = append(r.queue, &record{
			payload: append(make([]byte, 0, len(payload)), payload...), origin: origin{r.n.id, r.boot, p.seq},
		})
	}
}

// ReadIndex implements consensus.Log.
func (r *Replica) ReadIndex(timeout time.Duration, done func(error)) {
	switch {
	case timeout <= 0:
		done(messages.InvalidField("timeout_ms", "a timeout must be positive"))
	case r.gone():
		done(stopping())
	default:
		r.seq++
		id := r.boot<<32 | r.seq
		r.reads = append(r.reads, &readCall{id: id, deadline: r.deadline(timeout), done: done})
		r.asked = append(r.asked, id)
	}
}

// askReady asks for the first read barrier of this boot, again after a failure.
func (r *Replica) askReady() {
	if r.ready || r.readying || r.gone() {
		return
	}
	r.readying = true
	r.ReadIndex(time.Duration(r.c.cfg.ElectionTicks)*r.c.cfg.Tick, func(err error) {
		r.readying = false
		r.ready = r.ready || err == nil
	})
}

// Status implements consensus.Log.
func (r *Replica) Status() consensus.Status {
	s := consensus.Status{ReplicaID: r.n.id}
	if r.closed {
		return s
	}
	s.LeaderID, s.Term, s.AppliedIndex = r.n.leaderID, r.n.mem.term, r.n.appliedByApplier
	s.Proposals, s.ProposedBytes, s.Ready = len(r.calls), int64(r.bytes), r.ready
	return s
}

// WaitReady implements consensus.Log without waiting: it returns not_ready until
// the replica is ready.
func (r *Replica) WaitReady(context.Context) error {
	switch {
	case r.gone():
		return stopping()
	case r.ready:
		return nil
	}
	return messages.NewError(messages.Code_CODE_NOT_READY, "no read barrier was reached yet")
}

// Close implements consensus.Log. Waiting callers are told inside it.
func (r *Replica) Close() error {
	if !r.closed {
		r.n.down()
		r.tellAll()
	}
	return nil
}

// tellAll ends everything that waits: nobody knows what becomes of it.
func (r *Replica) tellAll() {
	calls, reads, changes, failures := r.calls, r.reads, r.changes, r.failures
	r.calls, r.reads, r.changes, r.failures, r.queue, r.asked = nil, nil, nil, nil, nil, nil
	for _, f := range failures {
		f()
	}
	for _, p := range calls {
		p.done(nil, stoppedUnknown())
	}
	for _, rd := range reads {
		rd.done(stopping())
	}
	for _, ch := range changes {
		ch.done(stoppedUnknown())
	}
}

func (r *Replica) waiting() bool { return len(r.queue) > 0 || len(r.asked) > 0 || r.target != 0 }

// takeRequests hands Raft what has come in, reads first, as dragonboat does.
func (n *node) takeRequests() {
	r := n.replica
	asked, queue, target := r.asked, r.queue, r.target
	r.asked, r.queue, r.target = nil, nil, 0
	for _, id := range asked {
		n.read(id)
	}
	if len(queue) > 0 {
		n.propose(queue)
	}
	if target != 0 {
		n.transfer(target)
	}
}

// RequestSnapshot implements consensus.Log: it freezes and saves at once.
func (r *Replica) RequestSnapshot(time.Duration) error {
	if r.gone() {
		return stopping()
	}
	return r.n.snapshotNow()
}
