package memlog

import (
	"context"
	"slices"
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

// take removes a proposal that is not told yet; nil if there is none, or if it is
// not to be told before its deadline.
func (r *Replica) take(o origin, atDeadline bool) *proposal {
	if o.replica != r.n.id || o.boot != r.boot {
		return nil
	}
	i, found := slices.BinarySearchFunc(r.calls, o.seq, func(p *proposal, seq uint64) int { return int(p.seq) - int(seq) })
	if !found || r.calls[i].deaf && !atDeadline {
		return nil
	}
	p := r.calls[i]
	r.calls = slices.Delete(r.calls, i, i+1)
	r.bytes -= p.bytes
	return p
}

// complete ends a proposal with its results.
func (r *Replica) complete(o origin, results []*messages.Result) {
	if r.closed {
		return
	}
	if p := r.take(o, false); p != nil {
		p.done(results, nil)
	}
}

// dropped ends a proposal or change that no leader took, in a later step.
func (r *Replica) dropped(o origin) {
	if ch := r.takeChange(o); ch != nil {
		r.failures = append(r.failures, func() { ch.done(droppedError()) })
	} else if p := r.take(o, true); p != nil {
		r.failures = append(r.failures, func() { p.done(nil, droppedError()) })
	}
}

// fail makes one callback that is due.
func (r *Replica) fail() {
	f := r.failures[0]
	r.failures = r.failures[1:]
	f()
}

func (r *Replica) readDropped(id uint64) {
	for i, rd := range r.reads {
		if rd.id == id {
			r.reads = slices.Delete(r.reads, i, i+1)
			r.failures = append(r.failures, func() {
				rd.done(messages.NewError(messages.Code_CODE_NO_LEADER, "the read barrier was dropped: no leader took it"))
			})
			return
		}
	}
}

// readAt is told the index of a read.
func (r *Replica) readAt(id, index uint64) {
	for _, rd := range r.reads {
		if rd.id == id {
			rd.index, rd.known = index, true
		}
	}
	r.appliedTo(r.n.applied)
}

// appliedTo ends the reads that waited for index.
func (r *Replica) appliedTo(index uint64) {
	for i := 0; i < len(r.reads); {
		rd := r.reads[i]
		if !rd.known || rd.index > index {
			i++
			continue
		}
		r.reads = slices.Delete(r.reads, i, i+1)
		r.failures = append(r.failures, func() { rd.done(nil) })
	}
}

// expire ends what is past its deadline.
func (r *Replica) expire() {
	for i := 0; i < len(r.calls); {
		if p := r.calls[i]; p.deadline < r.c.now {
			r.take(origin{r.n.id, r.boot, p.seq}, true)
			p.done(nil, messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "not applied here in time"))
			i = 0 // the callback may have proposed
		} else {
			i++
		}
	}
	for i := 0; i < len(r.reads); {
		if rd := r.reads[i]; rd.deadline < r.c.now {
			r.reads = slices.Delete(r.reads, i, i+1)
			rd.done(messages.NewError(messages.Code_CODE_TIMEOUT, "the read barrier was not reached in time"))
			i = 0
		} else {
			i++
		}
	}
	for i := 0; i < len(r.changes); {
		if ch := r.changes[i]; ch.deadline < r.c.now {
			r.changes = slices.Delete(r.changes, i, i+1)
			ch.done(messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "not applied here in time"))
			i = 0
		} else {
			i++
		}
	}
}

// RequestSnapshot implements consensus.Log: it freezes and saves at once.
func (r *Replica) RequestSnapshot(time.Duration) error {
	if r.gone() {
		return stopping()
	}
	return r.n.snapshotNow()
}

func droppedError() error {
	return messages.NewError(messages.Code_CODE_NO_LEADER, "the entry was dropped: no leader took it")
}

func stoppedUnknown() error {
	return messages.UnknownOutcome(messages.Code_CODE_NODE_STOPPING, "this replica stopped before the entry was applied here")
}
