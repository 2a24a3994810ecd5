package pipeline

import (
	"fmt"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Next returns the next message to send, or nil when there is nothing to send now. It
// packs whatever waits, so the longer the writer takes, the fuller its frames get. The
// message is the caller's; the operations in it may be shared and must not be changed.
func (p *Pipeline) Next(now time.Duration) *messages.ClientMessage {
	l := &p.link
	if !l.up || l.leave != nil {
		return nil
	}
	if l.quit != nil {
		return p.beat(now)
	}
	var m *messages.ClientMessage
	if l.renewal != nil {
		m = &messages.ClientMessage{Message: &messages.ClientMessage_Credentials{Credentials: l.renewal}}
		l.renewal = nil
	}
	if m == nil {
		m = p.watches.control()
	}
	if m == nil {
		m = p.nextFrame(now)
	}
	if m == nil {
		return p.beat(now)
	}
	l.lastSent = now
	return m
}

// beat is a heartbeat when one is due.
func (p *Pipeline) beat(now time.Duration) *messages.ClientMessage {
	l := &p.link
	if now < l.lastSent+l.heartbeat {
		return nil
	}
	l.beats++
	l.lastSent = now
	return &messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: &messages.Heartbeat{Number: l.beats}}}
}

// frame collects operations up to the limits that the node gave.
type frame struct {
	operations []*messages.Operation
	bytes      int
	latest     time.Duration // deadline
}

func (p *Pipeline) nextFrame(now time.Duration) *messages.ClientMessage {
	f := frame{}
	first := p.link.nextWire
	p.watches.fill(p, &f, now)
	p.fillUrgent(&f)
	p.flip = !p.flip
	if p.flip {
		p.session.fill(p, &f, now)
		p.fillPlain(&f, now)
	} else {
		p.fillPlain(&f, now)
		p.session.fill(p, &f, now)
	}
	if len(f.operations) == 0 {
		return nil
	}
	timeout := min(f.latest-now, p.cfg.AttemptTimeout, messages.RequestTimeoutMsMax*time.Millisecond)
	return &messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
		ClientEpoch: p.cfg.ClientEpoch,
		FirstCall:   first,
		TimeoutMs:   uint32(max(timeout.Milliseconds(), 1)),
		Operations:  f.operations,
	}}}
}

// room tells whether one more operation of this size may join the frame. The first of
// a frame always may: a large one travels alone.
func (p *Pipeline) room(f *frame, size int) bool {
	if len(p.link.wires) >= p.link.callsMax || len(f.operations) >= p.link.frameOperations {
		return false
	}
	return len(f.operations) == 0 || f.bytes+size <= p.link.frameBytes
}

// put adds a call to the frame under the connection's next number.
func (p *Pipeline) put(f *frame, c *Call, op *messages.Operation) {
	if f.operations == nil {
		f.operations = make([]*messages.Operation, 0, 8)
	}
	f.operations = append(f.operations, op)
	f.bytes += c.size
	f.latest = max(f.latest, c.Deadline)
	c.wire, c.sent = p.link.nextWire, true
	p.link.wires[c.wire] = c
	p.link.nextWire++
}

// fits completes a call that no frame can carry. It was not sent, so not applied.
func (p *Pipeline) fits(c *Call) bool {
	if c.size <= p.link.operationMax+numbersBytes {
		return true
	}
	field, what, limit := "operation", fmt.Sprintf("%d bytes encoded", c.size-numbersBytes), p.link.operationMax
	if put := c.Operation.GetWrite().GetPut(); len(put.GetValue()) > limit-messages.TxnOverheadBytes {
		// The field that the node would name, had it seen the put.
		field, what, limit = "value", fmt.Sprintf("%d bytes", len(put.GetValue())), limit-messages.TxnOverheadBytes
	}
	e := messages.NewError(messages.Code_CODE_TOO_LARGE, "%s, at most %d", what, limit)
	e.Detail.Outcome = c.outcome()
	p.complete(c, nil, e.WithField(field).WithLimit(uint64(limit)))
	return false
}

func (p *Pipeline) fillUrgent(f *frame) {
	for c := p.urgent.peek(); c != nil; c = p.urgent.peek() {
		if p.fits(c) {
			if !p.room(f, c.size) {
				return
			}
			p.put(f, c, p.withIncarnation(c.Operation))
		}
		p.urgent.pop()
	}
}

func (p *Pipeline) fillPlain(f *frame, now time.Duration) {
	if now < p.pause.until {
		return
	}
	for c := p.plain.peek(); c != nil; c = p.plain.peek() {
		if p.fits(c) && p.sameTimeline(c) {
			if !p.room(f, c.size) {
				return
			}
			p.put(f, c, p.withIncarnation(c.Operation))
		}
		p.plain.pop()
	}
}

// sameTimeline completes a write that may have been applied in an incarnation that is
// no more: repeating it in the restored cluster could apply it twice.
func (p *Pipeline) sameTimeline(c *Call) bool {
	if c.epoch == 0 || !c.doubt {
		c.epoch = p.incarnation
	}
	if c.Kind == Read || c.epoch == p.incarnation {
		return true
	}
	p.complete(c, nil, messages.UnknownOutcome(messages.Code_CODE_WRONG_INCARNATION, "the cluster was restored before the answer"))
	return false
}

// withIncarnation returns op with the incarnation that a write names. A copy, since
// an earlier frame may still be on its way out.
func (p *Pipeline) withIncarnation(op *messages.Operation) *messages.Operation {
	w := op.GetWrite()
	if w == nil {
		return op
	}
	return writeOperation(&messages.Write{IdempotencyKey: w.IdempotencyKey, Incarnation: p.incarnation, Op: w.Op})
}

func writeOperation(w *messages.Write) *messages.Operation {
	return &messages.Operation{Operation: &messages.Operation_Write{Write: w}}
}

// Sendable tells whether Next may have something to send now, so that the owner wakes
// its writer only then.
func (p *Pipeline) Sendable(now time.Duration) bool {
	l := &p.link
	if !l.up || l.leave != nil || l.quit != nil {
		return false
	}
	if l.renewal != nil {
		return true
	}
	if len(l.wires) < l.callsMax {
		s := &p.session
		if p.urgent.len() > 0 || p.plain.len() > 0 && now >= p.pause.until || p.watches.pending() && now >= p.watches.pause.until {
			return true
		}
		if s.sendFrom < len(s.window) || s.waiting.len() > 0 && len(s.window) < p.cfg.WindowMax {
			return now >= s.quietUntil()
		}
	}
	return p.watches.talks()
}
