package pipeline

import (
	"time"

	"github.com/concord-kv/concord/messages"
)

// session numbers the client's writes and sees to it that each takes effect once.
//
// Apply takes a session's numbers in order: n only when n - 1 is answered. So the
// writes that are sent and not answered form a window, and after a lost connection or
// a refusal everything from there on is sent again, in order, under the same numbers.
// A write whose caller has been told something else is replaced by the empty
// transaction when its number is sent again: the number must be used, the write must
// not come late.
type session struct {
	id      uint64 // 0: none is open
	leaseID uint64
	ttl     time.Duration
	expires time.Duration // no earlier by this clock than by the cluster's, unless confirmed
	opening bool

	waiting  queue // not numbered
	next     uint64
	acked    uint64  // this number and all before it are answered
	window   []*Call // numbers acked+1, acked+2, ...
	sendFrom int     // index in window of the next one to send again

	pause pause
	// gapUntil holds writes back after an out_of_order: the number before them is on
	// its way and its answer will let them go. After that time it counts as lost.
	gapUntil time.Duration
	// disorder counts out_of_order answers to the first number of the window.
	disorder int
}

const (
	gapWait     = 250 * time.Millisecond
	disorderMax = 20
)

// pending tells whether there is something to send.
func (s *session) pending() bool {
	return s.sendFrom < len(s.window) || s.waiting.len() > 0
}

func (s *session) quietUntil() time.Duration { return max(s.pause.until, s.gapUntil) }

// fill puts writes into the frame: first those that must be sent again, then new ones
// while the window has room.
func (s *session) fill(p *Pipeline, f *frame, now time.Duration) {
	if s.id == 0 {
		s.open(p, f, now)
		return
	}
	if now < s.pause.until {
		return
	}
	if s.gapUntil > 0 {
		if now < s.gapUntil {
			return
		}
		s.gapUntil = 0
		s.recall(p)
	}
	for ; s.sendFrom < len(s.window); s.sendFrom++ {
		c := s.window[s.sendFrom]
		if c.answered || c.wire != 0 {
			continue
		}
		if !p.room(f, c.size) {
			return
		}
		p.put(f, c, s.operation(p, c))
	}
	for len(s.window) < p.cfg.WindowMax {
		c := s.waiting.peek()
		if c == nil {
			return
		}
		if p.fits(c) {
			if len(s.window) == 0 && now >= s.expires {
				// Idle for longer than its lease, perhaps suspended: nothing is in doubt, so a
				// new session costs one round and the old one would cost the caller an error.
				s.forget(p)
				s.open(p, f, now)
				return
			}
			if !p.room(f, c.size) {
				return
			}
			c.sequence = s.next
			s.next++
			s.window = append(s.window, c)
			s.sendFrom = len(s.window)
			p.put(f, c, s.operation(p, c))
		}
		s.waiting.pop()
	}
}

func (s *session) operation(p *Pipeline, c *Call) *messages.Operation {
	o := &struct { // in one piece, for each write
		operation messages.Operation
		oneof     messages.Operation_Write
		write     messages.Write
	}{}
	w := &o.write
	w.SessionId, w.Sequence, w.Acknowledged, w.Incarnation = s.id, c.sequence, s.acked, p.incarnation
	if c.void {
		w.Op = emptyTxn
	} else {
		w.Op = c.Operation.GetWrite().Op
	}
	o.oneof.Write = w
	o.operation.Operation = &o.oneof
	return &o.operation
}

// open asks for a session when a write waits for one. An answer that is lost leaves a
// session behind that ends with its lease.
func (s *session) open(p *Pipeline, f *frame, now time.Duration) {
	if s.opening || s.waiting.peek() == nil {
		return
	}
	s.opening = true
	op := writeOperation(&messages.Write{Op: &messages.Write_OpenSession{OpenSession: &messages.OpenSession{
		TtlMs: p.cfg.SessionTTL.Milliseconds(), Label: p.cfg.SessionLabel,
	}}})
	c := NewCallThen(Repeatable, op, now+p.cfg.SessionTTL, func(c *Call) { s.opened(p, c, now) })
	c.measure()
	c.liveIndex = len(p.live)
	p.live = append(p.live, c)
	p.earliest = min(p.earliest, c.Deadline)
	if len(f.operations) > 0 && !p.room(f, c.size) {
		p.plain.push(c)
		return
	}
	p.put(f, c, p.withIncarnation(op))
}

func (s *session) opened(p *Pipeline, c *Call, askedAt time.Duration) {
	s.opening = false
	if p.closed != nil {
		return
	}
	if c.Err != nil {
		if retryable(messages.CodeOf(c.Err)) {
			return // whoever waits has a deadline of its own; the next frame asks again
		}
		s.refuseWaiting(p, c.Err)
		return
	}
	r := c.Reply.GetResult().GetOpenSession()
	if r.GetSessionId() == 0 {
		s.refuseWaiting(p, messages.NewError(messages.Code_CODE_PROTOCOL, "the node opened no session"))
		return
	}
	s.id, s.leaseID = r.SessionId, r.LeaseId
	s.ttl = time.Duration(r.TtlMs) * time.Millisecond
	s.expires = askedAt + s.ttl
	s.next, s.acked, s.window, s.sendFrom = 1, 0, nil, 0
	s.gapUntil, s.disorder = 0, 0
	if p.cfg.OnSession != nil {
		p.cfg.OnSession(s.id, s.leaseID, s.ttl, askedAt)
	}
}

func (s *session) refuseWaiting(p *Pipeline, err error) {
	for c := s.waiting.peek(); c != nil; c = s.waiting.peek() {
		s.waiting.pop()
		//nolint:errorlint // ErrorFrom makes no other
		e := withOutcome(messages.ErrorFrom(messages.DetailOf(err)).(*messages.Error), messages.Outcome_OUTCOME_NOT_APPLIED)
		p.complete(c, nil, e)
	}
}

// SessionConfirmed is told that a keep-alive of the session's lease, sent at sentAt,
// was applied.
func (p *Pipeline) SessionConfirmed(leaseID uint64, sentAt, ttl time.Duration) {
	if s := &p.session; s.leaseID == leaseID && leaseID != 0 {
		s.expires = max(s.expires, sentAt+ttl)
	}
}

// SessionLost is told that the session's lease is gone.
func (p *Pipeline) SessionLost(leaseID uint64) {
	if s := &p.session; s.leaseID == leaseID && leaseID != 0 {
		s.drop(p, messages.Code_CODE_SESSION_EXPIRED, "its lease is gone")
	}
}

// Session returns the open session and the time its lease has, 0 for none.
func (p *Pipeline) Session() (id, leaseID uint64) { return p.session.id, p.session.leaseID }
