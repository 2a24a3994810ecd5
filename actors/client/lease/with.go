package lease

import (
	"context"
	"errors"
)

// With runs fn with a context that ends when ctx ends or the lease is lost,
// whichever is first, and returns fn's error. When the lease was lost before fn
// returned, it returns a *LostError that carries fn's error as Work: errors.Is(err,
// ErrLost) always means that fn may not have run alone. A lease that is already
// over is not acted for: fn does not run, and With returns the lease's Err.
//
// A panic in fn passes through; With leaves no goroutine behind.
func With(ctx context.Context, l *Lease, fn func(ctx context.Context) error) error {
	if err := l.Err(); err != nil {
		return err
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer stop()

	work := fn(run)
	if lost := (*LostError)(nil); errors.As(l.Err(), &lost) {
		return &LostError{Subject: lost.Subject, Cause: lost.Cause, Work: work}
	}
	return work
}
