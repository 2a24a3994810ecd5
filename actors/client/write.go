package client

import (
	"context"
	"errors"

	"github.com/concord-kv/concord/messages"
)

// localLimits are the widest that any cluster may have: what they refuse is refused
// everywhere, and the node checks again with its own.
var localLimits = func() *messages.ClusterConfig {
	c := messages.DefaultClusterConfig()
	c.ValueBytesMax = messages.ValueBytesCeiling
	c.LeaseTtlMinMs = messages.LeaseTTLFloorMs
	c.LeaseTtlMaxMs = messages.LeaseTTLMaxMs
	return c
}()

// prepare checks an operation and, with OneShot, gives a write its key.
func (c *Client) prepare(op *messages.Operation) error {
	switch o := op.GetOperation().(type) {
	case *messages.Operation_Write:
		if err := messages.ValidateWrite(o.Write, localLimits); err != nil {
			return err
		}
		if c.cfg.OneShot && o.Write.IdempotencyKey == "" && takesKey(o.Write) {
			o.Write.IdempotencyKey = c.nextKey()
		}
	case *messages.Operation_Query:
		if err := messages.ValidateQuery(o.Query); err != nil {
			return err
		}
	default:
		return messages.NewError(messages.Code_CODE_UNSUPPORTED, "a write or a query is needed").WithField("operation")
	}
	return nil
}

func (c *Client) nextKey() string {
	if c.cfg.NewKey != nil {
		return c.cfg.NewKey(c.NewIdempotencyKey)
	}
	return c.NewIdempotencyKey()
}

func takesKey(w *messages.Write) bool {
	switch w.Op.(type) {
	case *messages.Write_KeepAliveLease, *messages.Write_OpenSession, *messages.Write_CloseSession, *messages.Write_ResolveIdempotency:
		return false
	}
	return true
}

// Write sends a change as plain data and returns what apply answered. The typed methods
// are built on it. The client fills session and numbers; w must not be changed after.
// With w.IdempotencyKey set the write has no number and can be repeated, also by
// another process, with the same effect as once.
func (c *Client) Write(ctx context.Context, w *messages.Write) (*messages.Result, error) {
	op := writeOperation(w)
	if err := c.prepare(op); err != nil {
		return nil, err
	}
	r, err := c.ask(ctx, op)
	if err == nil {
		return r.GetResult(), nil
	}
	if c.cfg.OneShot && c.cfg.Settle > 0 && w.IdempotencyKey != "" && messages.OutcomeOf(err) == messages.Outcome_OUTCOME_UNKNOWN {
		return c.settle(ctx, w.IdempotencyKey, err)
	}
	return nil, err
}

// settle finds out what became of a write whose outcome is unknown, and sees to it that
// nothing more becomes of it.
func (c *Client) settle(ctx context.Context, key string, unknown error) (*messages.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Settle)
	defer cancel()
	found, err := c.Resolve(ctx, key, ResolveOptions{Fence: true})
	if err != nil {
		return nil, unknown
	}
	switch found.State {
	case messages.ResolveIdempotencyResult_STATE_RECORDED:
		if refusal := messages.ErrorFrom(found.Result.GetError()); refusal != nil {
			return nil, refusal
		}
		return found.Result, nil
	case messages.ResolveIdempotencyResult_STATE_FENCED:
		var e *messages.Error
		errors.As(unknown, &e)
		d := &messages.ErrorDetail{Code: e.Code(), Outcome: messages.Outcome_OUTCOME_NOT_APPLIED, Message: e.Detail.GetMessage()}
		return nil, &messages.Error{Detail: d, Err: e.Err}
	}
	return nil, unknown
}

// Query sends a read as plain data. The typed methods are built on it.
func (c *Client) Query(ctx context.Context, q *messages.Query) (*messages.QueryReply, error) {
	op := queryOperation(q)
	if err := c.prepare(op); err != nil {
		return nil, err
	}
	r, err := c.ask(ctx, op)
	if err != nil {
		return nil, err
	}
	return r.GetQuery(), nil
}

// ResolveOptions of Resolve.
type ResolveOptions struct {
	// Fence records an absent key, so that a later arrival is refused.
	Fence bool
}

// Resolution is what became of a write with an idempotency key.
type Resolution struct {
	// State is recorded (Result is its answer), not_found (it may still arrive) or
	// fenced (it was not applied and never will be).
	State  messages.ResolveIdempotencyResult_State
	Result *messages.Result
}

// Resolve asks what became of the write with this idempotency key.
func (c *Client) Resolve(ctx context.Context, key string, opts ResolveOptions) (Resolution, error) {
	r, err := c.Write(ctx, &messages.Write{Op: &messages.Write_ResolveIdempotency{
		ResolveIdempotency: &messages.ResolveIdempotency{Key: key, Fence: opts.Fence},
	}})
	if err != nil {
		return Resolution{}, err
	}
	found := r.GetResolveIdempotency()
	return Resolution{State: found.GetState(), Result: found.GetResult()}, nil
}
