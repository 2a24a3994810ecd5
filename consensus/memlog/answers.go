package memlog

import (
	"slices"

	"github.com/concord-kv/concord/messages"
)

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

func droppedError() error {
	return messages.NewError(messages.Code_CODE_NO_LEADER, "the entry was dropped: no leader took it")
}

func stoppedUnknown() error {
	return messages.UnknownOutcome(messages.Code_CODE_NODE_STOPPING, "this replica stopped before the entry was applied here")
}
