package mutex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/concord-kv/concord/actors/client/internal/line"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
)

// ErrBusy is the error of TryLock when somebody else has the lock or waits for it, and of
// LockWithin when the time is over.
var ErrBusy = errors.New("the lock is held by another")

// Mutex is a lock of a name. It holds no state of its own: any number of them may be
// made for one name, and one may be used by many goroutines.
type Mutex struct {
	name string
	line *line.Line
}

// New returns the lock of a name, which may be any text that is not empty. The session
// must have been opened with a client whose writes are numbered (not Config.OneShot).
func New(s *session.Session, name string) (*Mutex, error) {
	l, err := line.New(s, "mutex", name)
	if err != nil {
		return nil, err
	}
	return &Mutex{name: name, line: l}, nil
}

// Name of the lock.
func (m *Mutex) Name() string { return m.name }

// Lock waits until the lock is held. It ends with an error when ctx is over, when the
// session is (a *lease.LostError, or lease.ErrEnded), or when its place in the line was
// deleted (a *lease.LostError). A nil error means held, any error not held and no longer
// waiting.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	p, err := m.line.Enter(ctx, nil)
	if err != nil {
		return nil, err
	}
	return m.wait(ctx, p)
}

func (m *Mutex) wait(ctx context.Context, p *line.Place) (*Held, error) {
	if err := p.Wait(ctx); err != nil {
		p.GiveUp()
		return nil, err
	}
	return &Held{hold: p.Hold()}, nil
}

// TryLock takes the lock if it is free and nobody waits for it; else ErrBusy, at once.
// It leaves nothing in the line.
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	// Most attempts at a held lock end here, without a write.
	if busy, err := m.line.Occupied(ctx); err != nil {
		return nil, err
	} else if busy {
		return nil, m.busy()
	}
	p, err := m.line.Enter(ctx, nil)
	if err != nil {
		return nil, err
	}
	if !p.First() {
		p.GiveUp()
		return nil, m.busy()
	}
	return m.wait(ctx, p)
}

// LockWithin is Lock that gives up with ErrBusy after d. Where the cluster has not even
// answered by then that is among the causes, as a *messages.Error.
func (m *Mutex) LockWithin(ctx context.Context, d time.Duration) (*Held, error) {
	callers, bounded := ctx.Deadline()
	within, cancel := context.WithTimeoutCause(ctx, d, ErrBusy)
	defer cancel()
	deadline, _ := within.Deadline()
	h, err := m.Lock(within)
	var lost *lease.LostError
	switch {
	case err == nil:
		return h, nil
	case bounded && !deadline.Before(callers), ctx.Err() != nil, errors.As(err, &lost):
		return nil, err // not for the lack of time, or for the lack of the caller's
	case errors.Is(err, ErrBusy):
		return nil, m.busy()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &lateError{fmt.Sprintf("mutex %q: not granted within %v: %v", m.name, d, err), err}
	}
	return nil, err
}

func (m *Mutex) busy() error { return fmt.Errorf("mutex %q: %w", m.name, ErrBusy) }

// lateError is ErrBusy that does not know of another holder.
type lateError struct {
	text string
	err  error
}

func (e *lateError) Error() string   { return e.text }
func (e *lateError) Unwrap() []error { return []error{ErrBusy, e.err} }
