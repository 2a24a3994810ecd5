package registration

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/internal/line"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// ErrTaken is the error of Open when the key exists.
var ErrTaken = errors.New("the key exists")

// ErrClosed is the Err of a registration that was closed.
var ErrClosed = errors.New("the registration was closed")

// Options of Open. The zero value works.
type Options struct {
	// Session that the key hangs on.
	Session session.Options
	// Wait has Open wait for a key that exists to go, for as long as ctx allows: a
	// process that was restarted finds that of its former life for up to a ttl.
	Wait bool
	// Renew registers again, on a new session, when the registration is lost. Until it is
	// closed it then tries for ever.
	Renew bool
	// Changed is told each State, one at a time and in order. It must not call the
	// registration's Close.
	Changed func(State)
	// ContentType and Metadata of the key.
	ContentType string
	Metadata    map[string][]byte
}

// State is whether the key is registered.
type State struct {
	Registered bool
	// LeaseID and Revision of the key, when registered.
	LeaseID, Revision uint64
	// Err is why it is not; nil when registered.
	Err error
}

// Registration is a key of this process. Close ends it.
type Registration struct {
	client *client.Client
	key    string
	opts   Options
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	value  []byte
	state  State
	hold   *line.Hold // nil while not registered
	closed bool
}

// Open registers the key with a value and returns once it is there. The client's writes
// must be numbered (not Config.OneShot).
func Open(ctx context.Context, c *client.Client, key string, value []byte, opts Options) (*Registration, error) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &Registration{client: c, key: key, opts: opts, value: value, stop: stop, done: make(chan struct{})}
	if err := r.register(ctx, opts.Wait); err != nil {
		stop()
		return nil, err
	}
	go r.run(run)
	return r, nil
}

// State returns whether the key is registered now, as far as this process knows.
func (r *Registration) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold != nil {
		if r.hold.Lease().Err() != nil {
			return State{Err: over(r.hold)} // whoever waits for it will hear
		}
	}
	return r.state
}

// Done is closed when the registration is over: closed, or lost without Renew.
func (r *Registration) Done() <-chan struct{} { return r.done }

// Update changes the value, and the value of later renewals. While it is not registered
// it only does the latter and returns why it is not.
func (r *Registration) Update(ctx context.Context, value []byte) error {
	r.mu.Lock()
	r.value = value
	hold, err := r.hold, r.state.Err
	r.mu.Unlock()
	if hold == nil {
		return err
	}
	mine := client.CreateRevision(r.key, client.Equal, hold.Token())
	done, err := client.If(mine).Then(client.OpPut(r.key, value, r.put(hold.Session()))).Commit(ctx, r.client)
	if err != nil {
		hold.Session().Refused(err)
		return err
	}
	if !done.Succeeded {
		hold.Lose(line.ErrKeyGone)
		return hold.Lease().Err()
	}
	return nil
}

// Close ends the registration and deletes the key. When that fails the cluster deletes
// it within the ttl, and Close may be repeated.
func (r *Registration) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	<-r.done
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold == nil {
		return nil
	}
	hold.End()
	r.mu.Lock()
	r.state = State{Err: ErrClosed}
	r.mu.Unlock()
	return hold.Session().Close(ctx)
}

func (r *Registration) put(s *session.Session) client.PutOptions {
	return client.PutOptions{LeaseID: s.LeaseID(), NoPrev: true, ContentType: r.opts.ContentType, Metadata: r.opts.Metadata}
}

func (r *Registration) taken(by *messages.Record) error {
	return fmt.Errorf("registration %q: %w, made at revision %d", r.key, ErrTaken, by.GetCreateRevision())
}

// over is why a registration that was lost is over.
func over(h *line.Hold) error {
	if lost := (*lease.LostError)(nil); errors.As(h.Lease().Err(), &lost) {
		return lost
	}
	return ErrClosed
}
