package session

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// adminsMax is how many requests of an operator a connection has under way.
const adminsMax = 16

// admins are the calls that the node's operator answers, by request.
type admins map[uint64]admin

type admin struct {
	call       uint64
	bytes      int64
	deadlineMs int64
}

// onAdmin passes a request of an operator on to the node.
func (c *core) onAdmin(call uint64, r *messages.AdminRequest, size int64, timeoutMs uint32) *messages.Error {
	switch {
	case r.GetRequest() == nil:
		return messages.InvalidField("admin", "a request of a known kind is needed")
	case c.mayOperate(r) != nil:
		return c.mayOperate(r)
	case c.cfg.Operator == nil:
		return messages.NewError(messages.Code_CODE_UNSUPPORTED, "this node takes no requests of operators")
	case len(c.admins) >= adminsMax:
		return overloaded("too many requests of an operator on this connection", adminsMax)
	}
	if err := c.admit(size, false); err != nil {
		return err
	}
	c.requestID++
	if c.admins == nil {
		c.admins = admins{}
	}
	c.admins[c.requestID] = admin{call: call, bytes: size, deadlineMs: c.nowMs + int64(timeoutMs) + graceMs}
	c.port.askOperator(&messages.AskAdmin{
		RequestId: c.requestID, Request: r, TimeoutMs: timeoutMs, Principal: c.who.principal(), Address: c.peer.Address,
	})
	return nil
}

// adminAnswered brings the answer.
func (c *core) adminAnswered(m *messages.AdminAnswered) {
	a, ok := c.admins[m.GetRequestId()]
	if !ok {
		return
	}
	delete(c.admins, m.GetRequestId())
	if m.GetError() != nil {
		c.fail(a.call, m.GetError(), a.bytes)
		return
	}
	reply := &messages.Reply{Call: a.call, Reply: &messages.Reply_Admin{Admin: m.GetReply()}}
	c.reply(reply, int64(proto.Size(reply)), a.bytes)
}

// expireAdmins answers what the node should have answered by now.
func (c *core) expireAdmins() {
	for _, id := range slices.Sorted(maps.Keys(c.admins)) {
		if a := c.admins[id]; a.deadlineMs <= c.nowMs {
			delete(c.admins, id)
			c.fail(a.call, messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "no answer of the node").Detail, a.bytes)
		}
	}
}
