package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/concord-kv/concord/actors/client/pipeline"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// Client is a client of one cluster. New makes it, Close ends it.
type Client struct {
	cfg Config

	mu      sync.Mutex
	pipe    *pipeline.Pipeline
	renewer *renewer               // of the open connection
	stream  transport.ClientStream // the open one, for the timer to cut off
	timer   Timer
	armedAt time.Duration // when the timer fires; pipeline.Never when it is not set
	closed  bool
	move    move

	feed    *pipeline.Feed // of the watches of WatchFunc
	feeding bool           // its goroutine runs

	wake   chan struct{} // the writer has something to send
	worker *KeepaliveWorker
	stop   context.CancelFunc
	done   chan struct{} // the connection's goroutine has ended
}

// New returns a client that begins to connect at once and does not wait for it: a call
// waits as long as its deadline allows. It fails only for a bad Config.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, armedAt: pipeline.Never, feed: pipeline.NewFeed(), wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{})}
	c.worker = newKeepaliveWorker(c, cfg.Clock, cfg.Random)
	c.pipe = pipeline.New(pipeline.Config{
		Random: cfg.Random, ClientEpoch: cfg.Random(), SessionTTL: cfg.SessionTTL, SessionLabel: cfg.Name,
		WindowMax: cfg.WindowMax, CallsMax: cfg.CallsMax, Roam: len(cfg.Endpoints) > 1,
		OnSession:     c.onSession,
		OnSessionOver: func(leaseID uint64) { c.worker.Forget(leaseID) },
	})
	go c.run(ctx)
	return c, nil
}

// Close ends the client: its session is closed, which takes a second at most, calls
// that have no answer fail as cancelled, watches end, leases are no longer kept alive
// and their holders are told that the client is closed. It may be repeated.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.done
		return nil
	}
	c.closed = true
	sessionID, leaseID := c.pipe.Session()
	c.mu.Unlock()
	c.worker.close(errClosed())
	if sessionID != 0 {
		c.worker.Forget(leaseID)
		c.closeSession(sessionID)
	}
	c.mu.Lock()
	c.pipe.Close()
	stream := c.stream
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.stop()
	if stream != nil {
		_ = stream.Close()
	}
	<-c.done
	return nil
}

// closeSession is a courtesy: the session would end with its lease.
func (c *Client) closeSession(id uint64) {
	w := &messages.Write{Op: &messages.Write_CloseSession{CloseSession: &messages.CloseSession{SessionId: id}}}
	now := c.cfg.Clock.Now()
	call := pipeline.NewCall(pipeline.Repeatable, writeOperation(w), now+min(time.Second, c.cfg.Timeout))
	c.mu.Lock()
	err := c.submitLocked(call, now)
	c.mu.Unlock()
	if err == nil {
		c.kick()
		<-call.Done()
	}
}

func errClosed() *messages.Error {
	return messages.NewError(messages.Code_CODE_CANCELLED, "the client is closed")
}

// Clock returns the client's clock: what SentAt in its answers counts on.
func (c *Client) Clock() Clock { return c.cfg.Clock }

// do sends one operation and waits for its answer.
func (c *Client) do(ctx context.Context, op *messages.Operation) (*messages.Reply, error) {
	if err := ctx.Err(); err != nil {
		e := messages.NewError(messages.Code_CODE_CANCELLED, "the context was over before the call")
		if errors.Is(err, context.DeadlineExceeded) {
			e.Detail.Code = messages.Code_CODE_TIMEOUT
		}
		e.Err = err
		return nil, e
	}
	timeout, ok := timeLeft(ctx)
	if !ok {
		timeout = c.cfg.Timeout
	}
	stepCall(ctx, c.cfg.Clock, "ask", op)
	now := about(c.cfg.Clock)
	call := pipeline.NewCall(kindOf(op), op, now+timeout)
	if err := c.submit(call, now); err != nil {
		return nil, err
	}
	select {
	case <-call.Done():
	case <-ctx.Done():
		c.mu.Lock()
		c.pipe.Abandon(call, ctx.Err())
		c.mu.Unlock()
		<-call.Done()
	}
	stepCall(ctx, c.cfg.Clock, "answer", op)
	return call.Reply, call.Err
}

// Start sends one operation without waiting: then runs once with the answer, on one of
// the client's own goroutines, and must neither block nor call the client. It is meant
// for load that does not wait; Start refuses what is invalid, and what is one too many.
func (c *Client) Start(op *messages.Operation, timeout time.Duration, then func(*messages.Reply, error)) error {
	if err := c.prepare(op); err != nil {
		return err
	}
	if timeout <= 0 {
		timeout = c.cfg.Timeout
	}
	now := about(c.cfg.Clock)
	return c.submit(pipeline.NewCallThen(kindOf(op), op, now+timeout, func(call *pipeline.Call) {
		then(call.Reply, call.Err)
	}), now)
}

func (c *Client) submit(call *pipeline.Call, now time.Duration) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errClosed()
	}
	err := c.submitLocked(call, now)
	c.mu.Unlock()
	if err == nil {
		c.kick()
	}
	return err
}

func (c *Client) submitLocked(call *pipeline.Call, now time.Duration) error {
	err := c.pipe.Submit(call, now)
	if err == nil && call.Deadline < c.armedAt {
		c.arm(call.Deadline, now)
	}
	return err
}

// kick wakes the writer.
func (c *Client) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// advance does what is due and sets the timer for what comes next. The lock is held.
func (c *Client) advance(now time.Duration) {
	next := c.pipe.Advance(now)
	if c.pipe.Leave() != nil && c.stream != nil {
		_ = c.stream.Close() // the reader ends, and with it the connection
	}
	if next != c.armedAt {
		c.arm(next, now)
	}
}

func (c *Client) arm(at, now time.Duration) {
	c.armedAt = at
	switch {
	case at == pipeline.Never:
		if c.timer != nil {
			c.timer.Stop()
		}
	case c.timer == nil:
		c.timer = c.cfg.Clock.AfterFunc(max(at-now, 0), c.onTimer)
	default:
		c.timer.Reset(max(at-now, 0))
	}
}

func (c *Client) onTimer() {
	now := c.cfg.Clock.Now()
	c.mu.Lock()
	c.armedAt = pipeline.Never
	c.advance(now)
	c.mu.Unlock()
	c.kick()
}

// kindOf says how an operation may be repeated.
func kindOf(op *messages.Operation) pipeline.Kind {
	w := op.GetWrite()
	if w == nil {
		return pipeline.Read
	}
	switch w.Op.(type) {
	case *messages.Write_KeepAliveLease:
		return pipeline.Once
	case *messages.Write_OpenSession, *messages.Write_CloseSession, *messages.Write_ResolveIdempotency:
		return pipeline.Repeatable
	}
	if w.IdempotencyKey != "" {
		return pipeline.Repeatable
	}
	return pipeline.Numbered
}

// What is made for every call is made in one piece.

func writeOperation(w *messages.Write) *messages.Operation {
	o := &struct {
		operation messages.Operation
		write     messages.Operation_Write
	}{write: messages.Operation_Write{Write: w}}
	o.operation.Operation = &o.write
	return &o.operation
}

func queryOperation(q *messages.Query) *messages.Operation {
	o := &struct {
		operation messages.Operation
		query     messages.Operation_Query
	}{query: messages.Operation_Query{Query: q}}
	o.operation.Operation = &o.query
	return &o.operation
}
