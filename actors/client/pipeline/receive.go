package pipeline

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// Receive takes one message of the node. An answer to a call that is not there any
// more is dropped.
func (p *Pipeline) Receive(m *messages.ServerMessage, now time.Duration) {
	if !p.link.up {
		return
	}
	p.link.lastReceived = now
	switch m := m.Message.(type) {
	case *messages.ServerMessage_Replies:
		for _, r := range m.Replies.GetReplies() {
			p.onReply(r, now)
		}
	case *messages.ServerMessage_WatchBatch:
		p.watches.onBatch(p, m.WatchBatch)
	case *messages.ServerMessage_WatchEnd:
		p.watches.onEnd(p, m.WatchEnd, now)
	case *messages.ServerMessage_Goodbye:
		p.onGoodbye(m.Goodbye)
	case *messages.ServerMessage_Heartbeat, *messages.ServerMessage_LeaderHint, *messages.ServerMessage_Hello,
		*messages.ServerMessage_Authenticated:
		// It counts as a sign of life; the owner looks at hints.
	}
}

func (p *Pipeline) onGoodbye(g *messages.Goodbye) {
	if p.link.leave != nil {
		return
	}
	if p.link.leave = messages.ErrorFrom(g.GetReason()); p.link.leave == nil {
		p.link.leave = messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "the node closed the connection")
	}
}

func (p *Pipeline) onReply(r *messages.Reply, now time.Duration) {
	c, ok := p.link.wires[r.Call]
	if !ok {
		return
	}
	delete(p.link.wires, r.Call)
	c.wire, c.sent = 0, false
	if q := r.GetQuery(); q != nil {
		p.saw(q.Revision)
	}
	result := r.GetResult()
	if result != nil {
		p.saw(result.Revision)
	}
	refusal, recorded := r.GetError(), false
	if refusal == nil && result.GetError() != nil {
		refusal, recorded = result.Error, true
	}
	if refusal == nil {
		p.link.strikes = 0
		p.onSuccess(c, r)
		return
	}
	e := &messages.Error{Detail: refusal}
	c.refusal = e
	if e.Outcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
		c.doubt = true
	}
	if strikes(e.Code()) {
		p.strike(e)
	}
	if c.Kind == Numbered {
		p.session.onRefusal(p, c, e, recorded, now)
		return
	}
	p.onRefusal(c, e, recorded, now)
}

func (p *Pipeline) onSuccess(c *Call, r *messages.Reply) {
	switch c.Kind {
	case Numbered:
		p.session.onAnswer(p, c, r, nil)
		p.session.pause.clear()
	case Once:
		p.complete(c, r, nil)
	default:
		p.pause.clear()
		p.complete(c, r, nil)
	}
}

func (p *Pipeline) onRefusal(c *Call, e *messages.Error, recorded bool, now time.Duration) {
	if c.over {
		return
	}
	if c.Kind == Once || !retryable(e.Code()) {
		if c.doubt && c.Kind == Repeatable && !recorded {
			// This copy was refused, but an earlier one may have been applied.
			e = withOutcome(e, messages.Outcome_OUTCOME_UNKNOWN)
		}
		p.complete(c, nil, e)
		return
	}
	p.pause.extend(now, time.Duration(e.Detail.GetRetryAfterMs())*time.Millisecond, p.cfg.Random)
	p.plain.push(c)
}

// retryable tells the refusals that time or another node may mend.
func retryable(code messages.Code) bool {
	switch code {
	case messages.Code_CODE_OVERLOADED, messages.Code_CODE_NO_LEADER, messages.Code_CODE_NOT_LEADER,
		messages.Code_CODE_NOT_READY, messages.Code_CODE_TIMEOUT, messages.Code_CODE_UNAVAILABLE,
		messages.Code_CODE_NODE_STOPPING, messages.Code_CODE_NO_QUORUM, messages.Code_CODE_STALE_CLOCK,
		messages.Code_CODE_CANCELLED:
		return true
	}
	return false
}

// strikes tells the refusals that speak of the node rather than of the call.
func strikes(code messages.Code) bool {
	return retryable(code) && code != messages.Code_CODE_OVERLOADED && code != messages.Code_CODE_STALE_CLOCK
}

// withOutcome returns a copy of e: in process, the node holds the same detail.
func withOutcome(e *messages.Error, o messages.Outcome) *messages.Error {
	d := proto.CloneOf(e.Detail)
	d.Outcome = o
	return &messages.Error{Detail: d, Err: e.Err}
}
