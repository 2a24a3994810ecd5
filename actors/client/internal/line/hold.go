package line

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
)

// watchAfter is how long a right is held before its key is watched. The watch then
// begins with the key's creation and misses nothing; a right that is released sooner
// costs none.
const watchAfter = 20 * time.Millisecond

// Hold is a right that is held: a lease that ends with the session, with its key or by
// Release, whichever is first. It may be used by many goroutines.
type Hold struct {
	session *session.Session
	ctrl    *lease.Controller
	key     string
	token   uint64

	mu       sync.Mutex
	timer    client.Timer
	stop     []func()
	ended    bool // stop was run
	released bool // confirmed
}

// NewHold holds the key that was created at token. watch says that its end is to be
// watched at once.
func NewHold(s *session.Session, subject, key string, token uint64, watch bool) *Hold {
	h := &Hold{session: s, key: key, token: token}
	h.ctrl = lease.NewController(subject, lease.Options{Probe: func() error { return cause(held(s)) }})
	h.later(s.Attach(func(err error) { h.ctrl.Lose(cause(err)) }))
	if watch {
		h.watch()
		return h
	}
	h.mu.Lock()
	h.timer = s.Client().Clock().AfterFunc(watchAfter, h.watch)
	h.mu.Unlock()
	return h
}

// cause is what a right that hangs on a session says of the session's end.
func cause(err error) error {
	if errors.Is(err, lease.ErrEnded) {
		return ErrSessionEnded
	}
	return err
}

func (h *Hold) watch() {
	if h.ctrl.Lease().Err() != nil {
		return
	}
	h.later(h.session.WhenGone(h.key, h.token, h.token, func() { h.ctrl.Lose(ErrKeyGone) }))
}

// later keeps what is to be stopped in the end, or stops it at once.
func (h *Hold) later(stop func()) {
	h.mu.Lock()
	ended := h.ended
	if !ended {
		h.stop = append(h.stop, stop)
	}
	h.mu.Unlock()
	if ended {
		stop()
	}
}

// Lease is the holder's signal.
func (h *Hold) Lease() *lease.Lease { return h.ctrl.Lease() }

// Lose signals the holder, for what a recipe itself sees.
func (h *Hold) Lose(cause error) { h.ctrl.Lose(cause) }

// Token is the fencing token: the create revision of the key.
func (h *Hold) Token() uint64 { return h.token }

// Key that stands for the right.
func (h *Hold) Key() string { return h.key }

// Session that the right hangs on.
func (h *Hold) Session() *session.Session { return h.session }

// End gives the right up without a word to anybody: the holder's signal will not fire.
func (h *Hold) End() {
	h.ctrl.End()
	h.mu.Lock()
	if h.timer != nil {
		h.timer.Stop()
	}
	stop := h.stop
	h.stop, h.ended = nil, true
	h.mu.Unlock()
	for _, f := range stop {
		f()
	}
}

// Release ends the lease and then deletes the key, if it is still this hold's. nil
// means that it is gone. After an error the session goes on with it in the background;
// Release may be repeated. A right that was lost before gives its *lease.LostError.
func (h *Hold) Release(ctx context.Context) error {
	h.End()
	h.mu.Lock()
	released := h.released
	h.mu.Unlock()
	if !released {
		if err := h.session.Release(ctx, h.key, h.token); err != nil && h.lost() == nil {
			return err
		} else if err == nil {
			h.mu.Lock()
			h.released = true
			h.mu.Unlock()
		}
	}
	return h.lost()
}

// lost is the loss, nil when there was none.
func (h *Hold) lost() error {
	if lost := (*lease.LostError)(nil); errors.As(h.Lease().Err(), &lost) {
		return lost
	}
	return nil
}
