package session

import (
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// reply answers a call of which requestBytes were admitted.
func (c *core) reply(r *messages.Reply, bytes, requestBytes int64) {
	c.calls--
	c.bytes -= requestBytes
	c.admission.leave(c.client, 1, requestBytes)
	c.queueReply(r, bytes)
}

func (c *core) fail(call uint64, err *messages.ErrorDetail, requestBytes int64) {
	c.reply(errorReply(call, err), errorBytes(err), requestBytes)
}

// refuse answers a call that was not admitted.
func (c *core) refuse(call uint64, err *messages.Error) {
	c.cfg.Telemetry.Refused(err.Code())
	c.owes += priceRefused
	c.queueReply(errorReply(call, err.Detail), errorBytes(err.Detail))
}

func (c *core) queueReply(r *messages.Reply, bytes int64) {
	if c.phase == closing {
		return
	}
	if len(c.replies) > 0 && c.repliesBytes+bytes > repliesBytesMax {
		c.sendReplies()
	}
	c.replies = append(c.replies, r)
	c.repliesBytes += bytes
	if len(c.replies) >= repliesMax {
		c.sendReplies()
		return
	}
	c.wake()
}

func (c *core) sendReplies() {
	if len(c.replies) == 0 || c.phase == closing {
		return
	}
	m := &messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: &messages.Replies{ClientEpoch: c.epoch, Replies: c.replies}}}
	bytes := c.repliesBytes
	c.replies, c.repliesBytes = nil, 0
	c.push(outgoing{message: m, bytes: bytes + messageBytes})
}

// messageBytes is what a message costs beside its content.
const messageBytes = 64

func (c *core) send(m *messages.ServerMessage) {
	c.push(outgoing{message: m, bytes: int64(proto.Size(m)) + messageBytes})
}

func (c *core) push(m outgoing) {
	if c.phase == closing {
		return
	}
	switch backlog := c.port.push(m); {
	case c.admission.crowdedOut(c.client, backlog):
		c.crowded()
	case backlog > c.queueMax:
		c.cut(messages.NewError(messages.Code_CODE_SLOW_CONSUMER, "the client does not read what it asked for").WithLimit(uint64(c.queueMax)))
	}
}

// crowded ends the connection: it is one of those for which too much waits.
func (c *core) crowded() {
	most := c.cfg.Limits.QueueBytesPerNode
	e := messages.NewError(messages.Code_CODE_SLOW_CONSUMER, "too much waits for clients that do not read, this one among the last").WithLimit(uint64(most))
	e.Detail.RetryAfterMs = crowdedRetryMs
	c.cut(e)
}

// crowdedRetryMs is what a client that was behind is asked to wait.
const crowdedRetryMs = 1_000

func stopping() *messages.Error {
	return messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node stops: go to another one")
}

func overloaded(what string, limit int64) *messages.Error {
	e := messages.NewError(messages.Code_CODE_OVERLOADED, "%s", what).WithLimit(uint64(limit))
	e.Detail.RetryAfterMs = retryAfterMs
	return e
}

func wrongIncarnation(got, have uint64) *messages.Error {
	return messages.NewError(messages.Code_CODE_WRONG_INCARNATION, "incarnation %d; this cluster is %d", got, have).WithField("incarnation")
}

func errorReply(call uint64, err *messages.ErrorDetail) *messages.Reply {
	return &messages.Reply{Call: call, Reply: &messages.Reply_Error{Error: err}}
}

func errorBytes(err *messages.ErrorDetail) int64 {
	return int64(64 + len(err.GetMessage()) + len(err.GetField()))
}
