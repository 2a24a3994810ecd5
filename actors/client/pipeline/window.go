package pipeline

import (
	"slices"
	"time"

	"github.com/concord-kv/concord/messages"
)

// This file: what becomes of the numbers of a session that were sent.

// rewind marks everything in the window that is not on the connection as not sent.
func (s *session) rewind() { s.sendFrom = 0 }

// goBack sends c, which was refused, and all after it again. What is still on the
// connection is left there: its own refusal is on the way and says for sure that it was
// not applied.
func (s *session) goBack(c *Call) {
	s.sendFrom = min(s.sendFrom, int(c.sequence-s.acked-1))
}

// recall gives up what is on the connection and sends the whole window again.
func (s *session) recall(p *Pipeline) {
	for _, c := range s.window {
		if c.wire != 0 {
			delete(p.link.wires, c.wire)
			c.wire, c.sent, c.doubt = 0, false, true
		}
	}
	s.sendFrom = 0
}

func (s *session) onRefusal(p *Pipeline, c *Call, e *messages.Error, recorded bool, now time.Duration) {
	code := e.Code()
	switch {
	case code == messages.Code_CODE_OUT_OF_ORDER:
		s.onOutOfOrder(p, c, now)
	case code == messages.Code_CODE_SESSION_EXPIRED || code == messages.Code_CODE_WRONG_INCARNATION:
		s.dropFor(p, c, e)
		if code == messages.Code_CODE_WRONG_INCARNATION && p.link.leave == nil {
			p.link.leave = e
		}
	case retryable(code) || code == messages.Code_CODE_SESSION_LIMIT:
		// The latter: more answers than the cluster keeps; those before make room.
		s.goBack(c)
		s.pause.extend(now, time.Duration(e.Detail.GetRetryAfterMs())*time.Millisecond, p.cfg.Random)
	case recorded:
		s.onAnswer(p, c, nil, e)
	default:
		// Refused before the log: the number is still to be used. What the caller hears
		// waits for that only when an earlier copy may have been applied.
		s.goBack(c)
		c.void = true
		if !c.doubt {
			p.complete(c, nil, e)
		}
	}
}

// onOutOfOrder: a number before this one is not answered yet. When that is on its way,
// its answer lets this one go; otherwise it is sent again first in any case.
func (s *session) onOutOfOrder(p *Pipeline, c *Call, now time.Duration) {
	s.goBack(c)
	at := int(c.sequence - s.acked - 1)
	if at > 0 {
		if slices.ContainsFunc(s.window[:at], func(c *Call) bool { return c.wire != 0 }) {
			s.gapUntil = now + gapWait
		}
		return
	}
	if s.disorder++; s.disorder < disorderMax {
		s.pause.extend(now, 0, p.cfg.Random)
		return
	}
	s.drop(p, messages.Code_CODE_OUT_OF_ORDER, "the session's numbers do not fit what the cluster knows")
}

// onAnswer takes apply's final word on a number and moves the window over every
// number that has one.
func (s *session) onAnswer(p *Pipeline, c *Call, r *messages.Reply, err error) {
	c.answered = true
	switch {
	case c.over:
	case !c.void:
		p.complete(c, r, err)
	case err == nil && isEmptyTxnAnswer(r.GetResult()):
		// The empty transaction took the number: the write was never applied.
		p.complete(c, nil, withOutcome(c.refusal, messages.Outcome_OUTCOME_NOT_APPLIED))
	default:
		p.complete(c, r, err)
	}
	n := 0
	for n < len(s.window) && s.window[n].answered {
		s.window[n] = nil
		n++
	}
	if n == 0 {
		return
	}
	s.window = s.window[n:]
	s.acked += uint64(n)
	s.sendFrom = max(s.sendFrom-n, 0)
	s.gapUntil, s.disorder = 0, 0
}

// dropFor ends the session because c was refused with e.
func (s *session) dropFor(p *Pipeline, c *Call, e *messages.Error) {
	c.answered = true
	if c.doubt {
		e = withOutcome(e, messages.Outcome_OUTCOME_UNKNOWN)
	}
	p.complete(c, nil, e)
	s.drop(p, e.Code(), e.Detail.GetMessage())
}

// drop ends the session: what is in its window is reported as unknown and never sent
// under another one; what has no number yet waits for the next.
func (s *session) drop(p *Pipeline, code messages.Code, text string) {
	for _, c := range s.window {
		if c == nil || c.answered {
			continue
		}
		if c.wire != 0 {
			delete(p.link.wires, c.wire)
			c.wire = 0
		}
		c.answered = true
		p.complete(c, nil, messages.UnknownOutcome(code, "the session ended before the answer: %s", text))
	}
	s.forget(p)
}

func (s *session) forget(p *Pipeline) {
	id := s.leaseID
	s.id, s.leaseID, s.window, s.sendFrom, s.gapUntil, s.disorder = 0, 0, nil, 0, 0, 0
	if id != 0 && p.cfg.OnSessionOver != nil {
		p.cfg.OnSessionOver(id)
	}
}
