package client

import (
	"context"
	"errors"
	"time"

	"github.com/concord-kv/concord/messages"
)

// ask is do, with one form for a deadline of the caller's: whether it was the context or
// the call that noticed first that the time is over, context.DeadlineExceeded is among
// the causes.
func (c *Client) ask(ctx context.Context, op *messages.Operation) (*messages.Reply, error) {
	r, err := c.do(ctx, op)
	if err == nil {
		return r, nil
	}
	var e *messages.Error
	deadline, ok := ctx.Deadline()
	if !ok || errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) {
		return nil, err
	}
	if e.Code() == messages.Code_CODE_TIMEOUT || e.Code() == messages.Code_CODE_UNAVAILABLE && time.Until(deadline) <= 0 {
		return nil, &messages.Error{Detail: e.Detail, Err: errors.Join(e.Err, context.DeadlineExceeded)}
	}
	return nil, err
}
