package replica

import "github.com/concord-kv/concord/messages"

// reader waits for a barrier.
type reader struct {
	from       any
	id         uint64
	deadlineMs int64
}

// barriers puts the reads that wait on one ReadIndex: all that came before it
// started share it, those that come later wait for the next. A barrier costs a
// round of the cluster whether one read waits for it or a thousand.
type barriers struct {
	waiting []reader
	current []reader
	attempt uint64 // of the ReadIndex under way; 0 for none
	last    uint64
	// hold keeps the next attempt back until a tick, after a failure.
	hold    bool
	failure *messages.ErrorDetail // the last failure: what a reader is told when its time is up
}

func (b *barriers) len() int { return len(b.waiting) + len(b.current) }

// start moves the waiting readers onto a new attempt. ok is false when there is
// none, or one is under way.
func (b *barriers) start() (attempt uint64, ok bool) {
	if b.attempt != 0 || b.hold || len(b.waiting) == 0 {
		return 0, false
	}
	b.current, b.waiting = b.waiting, b.current[:0]
	b.last++
	b.attempt = b.last
	return b.attempt, true
}

// finish ends an attempt. Readers of a failed one wait again, ahead of the others.
func (b *barriers) finish(attempt uint64, err error, reached func(reader)) {
	if attempt != b.attempt {
		return
	}
	b.attempt = 0
	if err == nil {
		b.failure = nil
		for _, r := range b.current {
			reached(r)
		}
		clear(b.current)
		b.current = b.current[:0]
		return
	}
	b.failure = messages.DetailOf(err)
	b.hold = true
	b.waiting = append(b.current, b.waiting...)
	b.current = nil
}

// restart gives up the attempt under way: its readers wait for a new one. It returns
// whether any reader waits.
func (b *barriers) restart() bool {
	if b.attempt != 0 {
		b.attempt = 0
		b.waiting = append(b.current, b.waiting...)
		b.current = nil
	}
	b.hold = false
	return len(b.waiting) > 0
}

// expire removes the readers whose deadline is at or before nowMs.
func (b *barriers) expire(nowMs int64, gone func(reader)) {
	b.waiting = expireReaders(b.waiting, nowMs, gone)
	b.current = expireReaders(b.current, nowMs, gone)
}

func expireReaders(rs []reader, nowMs int64, gone func(reader)) []reader {
	kept := rs[:0]
	for _, r := range rs {
		if r.deadlineMs > nowMs {
			kept = append(kept, r)
		} else {
			gone(r)
		}
	}
	clear(rs[len(kept):])
	return kept
}
