package session

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// writes are the calls that wait for the log.
type writes struct {
	byRequest map[uint64]*proposal
	// next gathers what comes in one burst of the mailbox.
	next      *messages.Propose
	nextCalls []pendingWrite
	nextBytes int64
	inFlight  int64
}

// proposal is one Propose that is not wholly answered.
type proposal struct {
	calls      []pendingWrite
	left       int
	deadlineMs int64
}

type pendingWrite struct {
	call     uint64
	bytes    int64
	answered bool
}

// onWrite passes a write on to the replica.
func (c *core) onWrite(call uint64, w *messages.Write, size int64, timeoutMs uint32) *messages.Error {
	if i := w.GetIncarnation(); i != 0 && i != c.facts.Incarnation {
		return wrongIncarnation(i, c.facts.Incarnation)
	}
	if err := messages.ValidateWrite(w, c.facts.cluster()); err != nil {
		return err
	}
	command := messages.CommandOf(w)
	if err := c.knownToAll(command); err != nil {
		return err
	}
	if c.who.guarded {
		if err := c.mayWrite(command); err != nil {
			return err
		}
	}
	c.sign(command)
	c.audited(command)
	if w.IdempotencyKey != "" {
		hash, err := messages.RequestHash(w)
		if err != nil {
			return messages.InvalidField("write", "cannot be encoded: %v", err)
		}
		command.RequestHash = hash
	}
	if err := c.admit(size, true); err != nil {
		return err
	}
	n := &c.writes
	if n.next != nil && (n.next.TimeoutMs != timeoutMs || len(n.nextCalls) >= messages.EntryCommandsMax || n.nextBytes+size > messages.EntryBytesMax) {
		c.sendProposal()
	}
	if n.next == nil {
		c.requestID++
		n.next = &messages.Propose{RequestId: c.requestID, TimeoutMs: timeoutMs}
	}
	n.next.Commands = append(n.next.Commands, command)
	n.nextCalls = append(n.nextCalls, pendingWrite{call: call, bytes: size})
	n.nextBytes += size
	return nil
}

// knownToAll refuses an operation that some member may not know yet: it would stop that
// member.
func (c *core) knownToAll(command *messages.Command) *messages.Error {
	since := state.VersionOf(command)
	if since == messages.ApplyVersionMin {
		return nil
	}
	if v := c.cfg.Node.Facts().ApplyVersion; v != 0 && v < since {
		return state.TooEarly(command)
	}
	return nil
}

func (c *core) sendProposal() {
	n := &c.writes
	if n.next == nil {
		return
	}
	n.byRequest[n.next.RequestId] = &proposal{
		calls: n.nextCalls, left: len(n.nextCalls),
		deadlineMs: c.nowMs + int64(n.next.TimeoutMs) + graceMs,
	}
	p := n.next
	n.next, n.nextCalls, n.nextBytes = nil, nil, 0
	c.port.propose(p)
}

// proposed brings results of a Propose. One that nobody waits for is late: its
// call was answered as unknown.
func (c *core) proposed(m *messages.Proposed) {
	p := c.writes.byRequest[m.GetRequestId()]
	if p == nil {
		return
	}
	for i, r := range m.GetResults() {
		at := int(m.GetFirst()) + i
		if at >= len(p.calls) || p.calls[at].answered {
			continue
		}
		w := &p.calls[at]
		w.answered = true
		p.left--
		c.writeLeft()
		if e := r.GetError(); e != nil && beforeApply(e) {
			c.fail(w.call, e, w.bytes)
			continue
		}
		c.reply(&messages.Reply{Call: w.call, Reply: &messages.Reply_Result{Result: r}}, resultBytes(r), w.bytes)
	}
	if p.left == 0 {
		delete(c.writes.byRequest, m.GetRequestId())
	}
}

func (c *core) writeLeft() {
	c.writes.inFlight--
	c.client.writes.Add(-1)
}

// beforeApply reports whether an error of the replica's says that apply has not
// answered: the write did not get there, or nobody knows.
func beforeApply(e *messages.ErrorDetail) bool {
	if e.Outcome == messages.Outcome_OUTCOME_UNKNOWN {
		return true
	}
	switch e.Code {
	case messages.Code_CODE_OVERLOADED, messages.Code_CODE_NO_LEADER, messages.Code_CODE_NOT_LEADER,
		messages.Code_CODE_NOT_READY, messages.Code_CODE_TIMEOUT, messages.Code_CODE_UNAVAILABLE,
		messages.Code_CODE_NODE_STOPPING, messages.Code_CODE_NO_QUORUM, messages.Code_CODE_CANCELLED:
		return true
	}
	return false
}

// expireWrites answers what the replica should have answered by now.
func (c *core) expireWrites() {
	var late []uint64
	for id, p := range c.writes.byRequest {
		if p.deadlineMs <= c.nowMs {
			late = append(late, id)
		}
	}
	slices.Sort(late)
	for _, id := range late {
		p := c.writes.byRequest[id]
		delete(c.writes.byRequest, id)
		err := messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "no answer from the log").Detail
		for _, w := range p.calls {
			if !w.answered {
				c.writeLeft()
				c.fail(w.call, err, w.bytes)
			}
		}
	}
}

// resultBytes bounds the encoded size of a result, cheaply for the common ones.
func resultBytes(r *messages.Result) int64 {
	if r.GetError() != nil {
		return errorBytes(r.GetError()) + 32
	}
	switch a := r.GetAnswer().(type) {
	case *messages.Result_Put:
		if a.Put.GetPrev() == nil {
			return 64
		}
	case *messages.Result_Delete:
		if len(a.Delete.GetPrev()) == 0 {
			return 64
		}
	case *messages.Result_Touch, *messages.Result_GrantLease, *messages.Result_KeepAliveLease, *messages.Result_RevokeLease:
		return 96
	}
	return int64(proto.Size(r)) + 32
}
