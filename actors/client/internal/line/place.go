package line

import (
	"context"
	"errors"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// ErrKeyGone is the cause of a loss when somebody deleted the key of a place.
var ErrKeyGone = errors.New("its key was deleted")

// ErrSessionEnded is the cause of a loss when the session of a right was ended before
// the right was released.
var ErrSessionEnded = errors.New("its session was ended")

const (
	giveUpWait = 500 * time.Millisecond
	lookRetry  = 100 * time.Millisecond
)

// Place is one key in a line. One goroutine at a time may use it.
type Place struct {
	line    *Line
	key     string
	created uint64
	first   bool // it was alone when it was created
	waited  bool
}

// First tells whether nobody was there when the place was made.
func (p *Place) First() bool { return p.first }

// Wait returns nil when the place has the right. After an error it has not and the
// caller gives it up. It waits for as long as the session lives and ctx allows, also
// while no node answers.
func (p *Place) Wait(ctx context.Context) error {
	s := p.line.session
	if p.first {
		return held(s)
	}
	p.waited = true
	out, stop := awaitGone(s, p.key, p.created, p.created)
	defer stop()
	for {
		before, revision, err := p.look(ctx)
		switch {
		case err == nil && before == nil:
			return held(s)
		case err == nil:
			err = p.await(ctx, before, revision, out)
		case ctx.Err() == nil && held(s) == nil && !errors.Is(err, lease.ErrLost):
			err = p.pause(ctx)
		}
		if err != nil {
			if lost := held(s); lost != nil {
				return lost
			}
			return err
		}
	}
}

// look finds the place before this one; nil when there is none.
func (p *Place) look(ctx context.Context) (before *messages.Record, revision uint64, err error) {
	own := false
	revision, err = p.line.each(ctx, client.ListOptions{KeysOnly: true, CreateRevisionMax: p.created}, func(r *messages.Record) {
		switch {
		case r.CreateRevision == p.created:
			own = own || string(r.Key) == p.key
		case before == nil || r.CreateRevision > before.CreateRevision:
			before = r
		}
	})
	if err == nil && !own {
		return nil, 0, p.line.lost(ErrKeyGone)
	}
	return before, revision, err
}

// await returns nil when it is time to look again.
func (p *Place) await(ctx context.Context, before *messages.Record, revision uint64, out <-chan struct{}) error {
	s := p.line.session
	gone, stop := awaitGone(s, string(before.Key), before.CreateRevision, revision)
	defer stop()
	select {
	case <-gone:
	case <-out:
	case <-s.Lease().Over():
	case <-ctx.Done():
	}
	client.StepAfter(ctx, s.Client().Clock(), "await")
	if lost := held(s); lost != nil {
		return lost
	}
	if ctx.Err() != nil {
		return contextOver(ctx)
	}
	return nil
}

func (p *Place) pause(ctx context.Context) error {
	s := p.line.session
	over := make(chan struct{})
	t := s.Client().Clock().AfterFunc(lookRetry, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
	case <-s.Lease().Over():
	case <-ctx.Done():
	}
	client.StepAfter(ctx, s.Client().Clock(), "await")
	if lost := held(s); lost != nil {
		return lost
	}
	if ctx.Err() != nil {
		return contextOver(ctx)
	}
	return nil
}

// GiveUp leaves the line. It waits a moment for the confirmation; without one the
// session goes on with it.
func (p *Place) GiveUp() {
	ctx, cancel := context.WithTimeout(context.Background(), giveUpWait)
	defer cancel()
	_ = p.line.session.Release(ctx, p.key, p.created)
}

// Hold turns a place that has the right into the holder's side of it.
func (p *Place) Hold() *Hold {
	return NewHold(p.line.session, p.line.subject, p.key, p.created, p.waited)
}

// held is the error of a session that is over; nil while it is not.
func held(s *session.Session) error { return s.Lease().Err() }

func awaitGone(s *session.Session, key string, created, seen uint64) (gone <-chan struct{}, stop func()) {
	c := make(chan struct{})
	return c, s.WhenGone(key, created, seen, func() { close(c) })
}

func contextOver(ctx context.Context) error {
	e := messages.NewError(messages.Code_CODE_CANCELLED, "the wait was given up")
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Detail.Code = messages.Code_CODE_TIMEOUT
	}
	e.Err = context.Cause(ctx)
	return e
}
