package registration

import (
	"context"
	"errors"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/internal/line"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

const (
	renewRetryMin = 100 * time.Millisecond
	renewRetryMax = 5 * time.Second
	endWait       = time.Second
)

// register opens a session and puts the key, unless another one's is there: then it
// waits for that to go, or returns ErrTaken.
func (r *Registration) register(ctx context.Context, wait bool) error {
	opts := r.opts.Session
	if opts.Subject == "" {
		opts.Subject = "registration " + r.key
	}
	s, err := session.Open(ctx, r.client, opts)
	if err != nil {
		return err
	}
	for {
		by, revision, err := r.create(ctx, s)
		switch {
		case err != nil:
		case by == nil:
			r.registered(line.NewHold(s, "registration "+r.key, r.key, revision, true))
			return nil
		case !wait:
			err = r.taken(by)
		default:
			err = r.awaitGone(ctx, s, by, revision)
		}
		if err != nil {
			r.endSession(s) // with it goes a key that may have been put
			return err
		}
	}
}

// create puts the key unless it exists; then it returns whose it is.
func (r *Registration) create(ctx context.Context, s *session.Session) (by *messages.Record, revision uint64, err error) {
	r.mu.Lock()
	value := r.value
	r.mu.Unlock()
	done, err := client.If(client.Exists(r.key, false)).
		Then(client.OpPut(r.key, value, r.put(s))).
		Else(client.OpGet(client.KeySelector(r.key), 0)).Commit(ctx, r.client)
	if err != nil {
		s.Refused(err)
		return nil, 0, err
	}
	if done.Succeeded {
		return nil, done.Revision, nil
	}
	records := done.Responses[0].GetGet().GetRecords()
	if len(records) != 1 {
		return nil, 0, messages.NewError(messages.Code_CODE_PROTOCOL, "a key that exists was not shown")
	}
	return records[0], done.Revision, nil
}

func (r *Registration) awaitGone(ctx context.Context, s *session.Session, by *messages.Record, revision uint64) error {
	gone := make(chan struct{})
	stop := s.WhenGone(r.key, by.CreateRevision, revision, func() { close(gone) })
	defer stop()
	select {
	case <-gone:
	case <-s.Lease().Over():
	case <-ctx.Done():
	}
	client.StepAfter(ctx, r.client.Clock(), "await")
	if lost := s.Lease().Err(); lost != nil {
		return lost
	}
	if ctx.Err() != nil {
		return errors.Join(r.taken(by), context.Cause(ctx))
	}
	return nil
}

// run follows the registration until it is closed, or lost for good.
func (r *Registration) run(ctx context.Context) {
	defer close(r.done)
	for {
		r.mu.Lock()
		hold := r.hold
		r.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-hold.Lease().Over():
		}
		client.StepAfter(ctx, r.client.Clock(), "follow")
		if ctx.Err() != nil {
			return // Close does the rest
		}
		r.change(State{Err: over(hold)}, nil)
		hold.End()
		r.endSession(hold.Session())
		if !r.opts.Renew || !r.renew(ctx) {
			return
		}
	}
}

// renew registers again; false when it was closed before.
func (r *Registration) renew(ctx context.Context) bool {
	for retry := renewRetryMin; ; retry = min(2*retry, renewRetryMax) {
		// Not at once: where two fight for a key, or the cluster for its life, haste makes
		// it worse.
		if !client.Pause(ctx, r.client.Clock(), retry) {
			return false
		}
		err := r.register(ctx, true)
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case messages.CodeOf(err) == messages.Code_CODE_CANCELLED:
			r.change(State{Err: err}, nil) // the client is closed
			return false
		}
	}
}

// endSession revokes what is left of a session, or leaves it to its ttl.
func (r *Registration) endSession(s *session.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	_ = s.Close(ctx)
}

func (r *Registration) registered(h *line.Hold) {
	r.change(State{Registered: true, LeaseID: h.Session().LeaseID(), Revision: h.Token()}, h)
}

func (r *Registration) change(s State, h *line.Hold) {
	r.mu.Lock()
	r.state, r.hold = s, h
	closed := r.closed
	r.mu.Unlock()
	if r.opts.Changed != nil && !closed {
		r.opts.Changed(s)
	}
}
