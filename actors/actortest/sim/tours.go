package sim

import (
	"context"
	"errors"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/election"
	"github.com/concord-kv/concord/actors/client/fence"
	"github.com/concord-kv/concord/actors/client/flight"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/mutex"
	"github.com/concord-kv/concord/actors/client/registration"
	"github.com/concord-kv/concord/actors/client/session"
)

func (t *tour) run(ctx context.Context) error {
	if t.kind == "registration" {
		return t.register(ctx)
	}
	s, err := session.Open(ctx, t.client.c, session.Options{TTL: t.ttl, Subject: t.name})
	if err != nil {
		return err
	}
	t.set(func() { t.s, t.state = s, tourWaiting })
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.Close(bounded)
	}()
	switch t.kind {
	case "mutex":
		return t.lock(ctx, s)
	case "election":
		return t.campaign(ctx, s)
	case "flight":
		return t.fly(ctx, s)
	}
	return t.observe(ctx, s)
}

func (t *tour) lock(ctx context.Context, s *session.Session) error {
	m, err := mutex.New(s, t.subject)
	if err != nil {
		return err
	}
	var h *mutex.Held
	switch {
	case t.try:
		h, err = m.TryLock(ctx)
	case t.within > 0:
		h, err = m.LockWithin(ctx, t.within)
	default:
		h, err = m.Lock(ctx)
	}
	if err != nil {
		return err
	}
	t.granted(h.Lease(), h.Token())
	t.work(ctx)
	return t.release(ctx, h.Unlock)
}

func (t *tour) campaign(ctx context.Context, s *session.Session) error {
	e, err := election.New(s, t.subject)
	if err != nil {
		return err
	}
	term, err := e.Campaign(ctx, []byte(t.name))
	if err != nil {
		return err
	}
	t.granted(term.Lease(), term.Token())
	_ = term.Proclaim(ctx, []byte(t.name+" leads"))
	t.work(ctx)
	return t.release(ctx, term.Resign)
}

func (t *tour) fly(ctx context.Context, s *session.Session) error {
	result, err := flight.New(s).Do(ctx, t.subject, func(ctx context.Context, r *flight.Run) ([]byte, error) {
		t.granted(r.Lease(), r.Token())
		t.work(ctx)
		t.set(func() { t.state, t.ran = tourReleasing, true })
		if t.fail {
			return nil, errors.New(t.name)
		}
		return []byte(t.name), nil
	})
	if err == nil {
		t.later(func() { t.world.recipes.flew(t, string(result.Value), result.Joined) })
	}
	return err
}

func (t *tour) register(ctx context.Context) error {
	// No value: each one of a world is written once.
	reg, err := registration.Open(ctx, t.client.c, "/reg/"+t.subject, nil, registration.Options{
		Session: session.Options{TTL: t.ttl}, Wait: true, Renew: true,
		Changed: func(s registration.State) {
			t.set(func() {
				if s.Registered && t.told.Err != nil {
					t.world.recipes.stats.Renewed++
				}
				if !s.Registered {
					t.world.recipes.stats.Losses++
				}
				t.told = s
			})
		},
	})
	if err != nil {
		return err
	}
	t.set(func() { t.reg, t.state = reg, tourHolding; t.world.recipes.stats.Grants++ })
	t.pause(ctx, t.hold)
	t.set(func() { t.state = tourReleasing })
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return reg.Close(bounded)
}

// observe follows who leads until the tour is cancelled.
func (t *tour) observe(ctx context.Context, s *session.Session) error {
	e, err := election.New(s, t.subject)
	if err != nil {
		return err
	}
	for l, err := range e.Observe(ctx) {
		if err != nil {
			return err
		}
		t.set(func() {
			if l.Epoch != 0 && l.Epoch < t.seen.Epoch || l.Revision < t.seen.Revision {
				t.world.failf("P2", "observer %s saw epoch %d at revision %d after epoch %d at %d", t.name, l.Epoch, l.Revision, t.seen.Epoch, t.seen.Revision)
			}
			if l.Epoch == 0 {
				l.Epoch = t.seen.Epoch
			}
			t.seen = l
		})
	}
	return nil
}

// granted notes that the tour has the right now.
func (t *tour) granted(l *lease.Lease, token fence.Token) {
	context.AfterFunc(l.Context(), func() {
		t.set(func() { t.signals++; t.world.recipes.stats.Losses++ })
	})
	err := l.Err()
	t.set(func() { t.state, t.lease, t.token = tourHolding, l, uint64(token) })
	if errors.Is(err, session.ErrDeadline) {
		t.world.failf("P1", "%s %s was granted to %s, whose session was lost before: %v", t.kind, t.subject, t.name, err)
	}
	t.later(func() { t.world.recipes.granted(t) })
}

// work writes to the resource now and then while it has the right; a naive tour does not
// ask whether it has.
func (t *tour) work(ctx context.Context) {
	const writes = 4
	for range writes {
		if !t.pause(ctx, t.hold/writes) || !t.naive && t.lease.Err() != nil {
			return
		}
		t.world.recipes.write(t)
	}
}

// release gives the right up.
func (t *tour) release(ctx context.Context, f func(context.Context) error) error {
	t.set(func() { t.state = tourReleasing })
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := f(bounded)
	if !errors.Is(err, lease.ErrLost) {
		t.set(func() { t.ended = true; t.world.recipes.stats.Ends++ })
	}
	return err
}

// pause waits on the client's clock, which stands still for one that is paused; false
// when ctx was over first.
func (t *tour) pause(ctx context.Context, d time.Duration) bool {
	over := make(chan struct{})
	timer := t.client.clock.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
	case <-ctx.Done():
	}
	client.StepAfter(ctx, &t.client.clock, "work")
	return ctx.Err() == nil
}
