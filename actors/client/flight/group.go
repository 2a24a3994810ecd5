package flight

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/fence"
	"github.com/concord-kv/concord/actors/client/internal/line"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// Group is where a process asks for runs. It may be used by many goroutines.
type Group struct {
	session *session.Session

	mu    sync.Mutex
	calls map[string]*call
}

// New returns a group. Its runs hang on the session, which must have been opened with a
// client whose writes are numbered (not Config.OneShot).
func New(s *session.Session) *Group {
	return &Group{session: s, calls: make(map[string]*call)}
}

// Result is what a run came to.
type Result struct {
	// Value that the function returned. Who shares it must not change it.
	Value []byte
	// Joined says that another call's function made it.
	Joined bool
}

// Run is what a function knows of its run.
type Run struct{ hold *line.Hold }

// Token is the fencing token of the run: higher than that of every one before it of the
// same key.
func (r *Run) Token() fence.Token { return fence.Token(r.hold.Token()) }

// Lease is the signal that the run was lost: another one may have begun.
func (r *Run) Lease() *lease.Lease { return r.hold.Lease() }

// Func is a function that is run once for all. Its context has the values of the first
// caller's and ends when the run is lost, not when callers withdraw.
type Func func(ctx context.Context, r *Run) ([]byte, error)

// call is what the callers of one key in this process wait for.
type call struct {
	key     string
	prefix  string
	done    chan struct{}
	cancel  context.CancelFunc // of what is not a run: asking and joining
	waiting int
	running bool
	starter bool         // the first caller still waits
	lease   *lease.Lease // of the run, once there is one

	result Result
	err    error
	panic  *PanicError
	exited bool // fn ended its goroutine
}

// Do runs fn or joins the run of another; see the package comment. A value may have as
// many bytes as the cluster allows one key. After a loss the error is a
// *lease.LostError that carries what fn returned. fn's panic is passed on to the call
// that it belongs to.
func (g *Group) Do(ctx context.Context, key string, fn Func) (Result, error) {
	prefix, err := line.Prefix("flight", key)
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, withdrawn(ctx)
	}
	g.mu.Lock()
	c := g.calls[key]
	mine := c == nil || c.lease != nil && c.lease.Err() != nil // what is lost will be discarded
	if mine {
		c = &call{key: key, prefix: prefix, done: make(chan struct{}), starter: true}
		ask, cancel := context.WithCancel(context.WithoutCancel(ctx))
		c.cancel = cancel
		g.calls[key] = c
		go g.fly(ask, c, fn)
	}
	c.waiting++
	g.mu.Unlock()

	select {
	case <-c.done:
	case <-ctx.Done():
		if g.withdraw(c, mine) {
			return Result{}, withdrawn(ctx)
		}
	}
	switch {
	case mine && c.panic != nil:
		panic(c.panic)
	case mine && c.exited:
		runtime.Goexit()
	}
	r := c.result
	r.Joined = r.Joined || !mine
	return r, c.err
}

// withdraw takes one caller back; false when the call has ended meanwhile.
func (g *Group) withdraw(c *call, mine bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-c.done:
		return false
	default:
	}
	if mine {
		c.starter = false
	}
	if c.waiting--; c.waiting == 0 && !c.running {
		g.forgetLocked(c)
		c.cancel()
	}
	return true
}

// forgetLocked lets the next caller of the key begin anew.
func (g *Group) forgetLocked(c *call) {
	if g.calls[c.key] == c {
		delete(g.calls, c.key)
	}
}

// fly is the call's goroutine: it asks for the right to run, and runs or joins.
func (g *Group) fly(ctx context.Context, c *call, fn Func) {
	defer c.cancel()
	hold, other, err := g.ask(ctx, c)
	switch {
	case err != nil:
		c.err = err
	case hold != nil:
		g.mu.Lock()
		if c.running = c.waiting > 0; c.running {
			c.lease = hold.Lease()
		}
		g.mu.Unlock()
		if !c.running {
			hold.End()
			g.clean(hold.Key(), client.CreateRevision(hold.Key(), client.Equal, hold.Token()))
			break // all withdrew while it asked
		}
		g.run(ctx, c, hold, fn)
	default:
		c.result, c.err = g.join(ctx, c, other)
		c.result.Joined = true
	}
	g.mu.Lock()
	g.forgetLocked(c)
	starter := c.starter
	close(c.done)
	g.mu.Unlock()
	if c.panic != nil && !starter {
		panic(c.panic) // nobody is left to take it
	}
}

func withdrawn(ctx context.Context) error {
	e := messages.NewError(messages.Code_CODE_CANCELLED, "the call was withdrawn")
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Detail.Code = messages.Code_CODE_TIMEOUT
	}
	e.Err = context.Cause(ctx)
	return e
}
