package session

import (
	"github.com/concord-kv/concord/messages"
)

// onFrame takes a frame apart. A frame that breaks the numbering ends the
// connection; one that breaks a limit is refused, operation by operation, and the
// connection goes on.
func (c *core) onFrame(f *messages.Frame) {
	n := uint64(len(f.GetOperations()))
	switch {
	case f.GetClientEpoch() != c.epoch:
		c.violated("a frame of another client epoch")
		return
	case n == 0:
		c.violated("a frame without operations")
		return
	case f.FirstCall < c.nextCall || f.FirstCall+n < f.FirstCall:
		// Two calls of one number could not be told apart by their answers.
		c.violated("calls must be numbered upwards")
		return
	}
	c.nextCall = f.FirstCall + n
	c.refreshFacts()
	c.refreshIdentity()
	sizes, total := c.sizes(f.Operations)
	c.cfg.Telemetry.Frame(int(n), int(total))
	if err := c.refusal(f, total); err != nil {
		for i := range n {
			c.refuse(f.FirstCall+i, err)
		}
		return
	}
	timeoutMs := f.TimeoutMs
	if timeoutMs == 0 {
		timeoutMs = messages.RequestTimeoutMsDefault
	}
	for i, op := range f.Operations {
		c.onOperation(f.FirstCall+uint64(i), op, sizes[i], timeoutMs)
		if c.phase == closing {
			return
		}
	}
	c.wake()
}

// sizes returns the encoded size of each operation, and their sum.
func (c *core) sizes(ops []*messages.Operation) (each []int64, total int64) {
	each = make([]int64, len(ops))
	for i, op := range ops {
		each[i] = int64(messages.OperationSize(op))
		total += each[i]
	}
	return each, total
}

// refusal returns why no operation of the frame is taken, if so.
func (c *core) refusal(f *messages.Frame, total int64) *messages.Error {
	n := len(f.Operations)
	switch {
	case c.phase == draining:
		return stopping()
	case n > messages.FrameOperationsMax:
		return messages.NewError(messages.Code_CODE_TOO_LARGE, "a frame of %d operations, at most %d", n, messages.FrameOperationsMax).
			WithField("operations").WithLimit(messages.FrameOperationsMax)
	case n > 1 && total > messages.FrameBytesMax:
		return messages.NewError(messages.Code_CODE_TOO_LARGE, "a frame of %d bytes, at most %d unless it holds one operation", total, messages.FrameBytesMax).
			WithField("operations").WithLimit(messages.FrameBytesMax)
	case f.TimeoutMs > messages.RequestTimeoutMsMax:
		return messages.InvalidField("timeout_ms", "%d, at most %d", f.TimeoutMs, messages.RequestTimeoutMsMax).WithLimit(messages.RequestTimeoutMsMax)
	}
	return nil
}

func (c *core) onOperation(call uint64, op *messages.Operation, size int64, timeoutMs uint32) {
	var err *messages.Error
	switch o := op.GetOperation().(type) {
	case *messages.Operation_Write:
		err = c.onWrite(call, o.Write, size, timeoutMs)
	case *messages.Operation_Query:
		err = c.onQuery(call, o.Query, size, timeoutMs)
	case *messages.Operation_Watch:
		err = c.onWatch(call, o.Watch, size, timeoutMs)
	case *messages.Operation_Admin:
		err = c.onAdmin(call, o.Admin, size, timeoutMs)
	case *messages.Operation_Token:
		err = c.onToken(call, o.Token)
	default:
		err = messages.InvalidField("operation", "one of write, query or watch is needed")
	}
	if err != nil {
		c.refuse(call, err)
	}
}

// admit counts a call that is about to be passed on, or refuses it.
func (c *core) admit(size int64, write bool) *messages.Error {
	l := &c.cfg.Limits
	if c.calls >= int64(l.CallsPerConnection) {
		return overloaded("too many calls in flight on this connection", int64(l.CallsPerConnection))
	}
	if c.calls > 0 && c.bytes+size > l.BytesPerConnection {
		return overloaded("too many bytes in flight on this connection", l.BytesPerConnection)
	}
	if err := c.admission.enter(c.client, size, write); err != nil {
		return err
	}
	if write {
		c.writes.inFlight++
	}
	c.calls++
	c.bytes += size
	return nil
}
