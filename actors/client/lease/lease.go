package lease

import (
	"context"
	"sync"
)

// Lease is what a holder gets. Its methods may be called from many goroutines.
type Lease struct {
	subject string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	over    chan struct{}
	probe   func() error

	mu    sync.Mutex
	state error // nil while held, then *LostError or ErrEnded, for good
}

// Controller decides when a lease is over. The issuer keeps it; only code that has
// it can lose or end the lease.
type Controller struct {
	lease Lease
}

// Options of NewController. The zero value works.
type Options struct {
	// Probe is asked by Err while the lease is held: a non-nil error loses the lease
	// with that cause at once. With it an issuer shows a passed deadline before any
	// of its timers ran. It must not block and must not call the controller.
	Probe func() error
}

// NewController makes a lease that is held, and its controller. It starts no
// goroutine; a lease that is dropped without Lose or End holds nothing but memory.
func NewController(subject string, opts Options) *Controller {
	c := &Controller{lease: Lease{subject: subject, over: make(chan struct{}), probe: opts.Probe}}
	// Not a child of the caller's context: cancelling that is not a loss.
	c.lease.ctx, c.lease.cancel = context.WithCancelCause(context.Background())
	return c
}

// Lease returns the holder's side, always the same.
func (c *Controller) Lease() *Lease { return &c.lease }

// Lose signals the holder that another one may have the right. The first call wins
// and its cause is kept; after End it does nothing. A nil cause gives a LostError
// without one.
func (c *Controller) Lose(cause error) {
	l := &c.lease
	_ = l.finish(&LostError{Subject: l.subject, Cause: cause})
}

// End records that the holder gave the right up. It never signals, it may be
// repeated, and it keeps an earlier loss.
func (c *Controller) End() { _ = c.lease.finish(ErrEnded) }

// Subject says what the lease gives the right to.
func (l *Lease) Subject() string { return l.subject }

// Context is cancelled by a loss and by nothing else; context.Cause of it is then
// the *LostError. Whoever must also wake when the lease is ended waits on Over.
func (l *Lease) Context() context.Context { return l.ctx }

// Over is closed when the lease is lost or ended.
func (l *Lease) Over() <-chan struct{} { return l.over }

// Err returns nil while the lease is held, the *LostError once it is lost, and
// ErrEnded once it is ended. It asks the issuer's probe, so it may find a loss that
// no timer has signalled yet; it then signals it.
func (l *Lease) Err() error {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	if state != nil || l.probe == nil {
		return state
	}
	cause := l.probe()
	if cause == nil {
		return nil
	}
	return l.finish(&LostError{Subject: l.subject, Cause: cause})
}

// finish moves a held lease to its last state and returns the state it is in.
func (l *Lease) finish(state error) error {
	l.mu.Lock()
	if l.state != nil {
		defer l.mu.Unlock()
		return l.state
	}
	l.state = state
	l.mu.Unlock()
	// Outside the lock: cancelling runs context.AfterFunc callbacks of the holder,
	// which may call back into the lease.
	if state != ErrEnded {
		l.cancel(state)
	}
	close(l.over)
	return state
}
