package sim

import (
	"context"
	"errors"
	"sync"
	"testing/synctest"
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

// recipes are what the clients of a world do with the SDK's recipes, and what is known
// of it. Goroutines of clients write it, the world reads it when they are idle.
type recipes struct {
	world *World

	mu       sync.Mutex
	tours    []*tour
	resource map[string]*resource // by kind and subject
	highest  map[string]uint64    // the highest token that was granted, likewise
	stats    RecipeStats
}

// RecipeStats counts what happened, so that a test can tell that it has tested.
type RecipeStats struct {
	Grants    int // rights that were granted
	Waited    int // of them, those that somebody else had first
	Losses    int // holders that were signalled
	Ends      int // holders that gave up what they held
	Overlaps  int // grants while a paused process thought that it had the right (P12)
	Refused   int // writes that a guard refused
	Writes    int // writes that a guard accepted
	Joined    int // flights that got the outcome of another's run
	Renewed   int // registrations that were made again after a loss
	Cancelled int // waits that were given up
}

// Add sums two.
func (s *RecipeStats) Add(o RecipeStats) {
	s.Grants, s.Waited, s.Losses, s.Ends = s.Grants+o.Grants, s.Waited+o.Waited, s.Losses+o.Losses, s.Ends+o.Ends
	s.Overlaps, s.Refused, s.Writes = s.Overlaps+o.Overlaps, s.Refused+o.Refused, s.Writes+o.Writes
	s.Joined, s.Renewed, s.Cancelled = s.Joined+o.Joined, s.Renewed+o.Renewed, s.Cancelled+o.Cancelled
}

// resource is what a subject's holders write to, behind a guard.
type resource struct {
	guard    fence.Memory
	accepted uint64 // the highest token, by an account of its own
}

// tour is one use of a recipe from its session to its end.
type tour struct {
	world               *World
	client              *Client
	name, kind, subject string
	ttl, hold, within   time.Duration
	try, naive, fail    bool
	cancel              context.CancelFunc

	// Under the lock of recipes.
	state     tourState
	cancelled bool
	s         *session.Session
	lease     *lease.Lease
	token     uint64
	signals   int
	first     error // the first Err that was not nil
	ended     bool  // given up without a loss
	ran       bool  // its function returned, for flights
	err       error
	reg       *registration.Registration
	told      registration.State
	seen      election.Leader
}

type tourState uint8

const (
	tourOpening tourState = iota // it has no session
	tourWaiting
	tourHolding
	tourReleasing
	tourOver
)

var tourStates = map[tourState]string{
	tourOpening: "opening", tourWaiting: "waiting", tourHolding: "holding", tourReleasing: "releasing", tourOver: "over",
}

func (r *recipes) init(w *World) {
	*r = recipes{world: w, resource: map[string]*resource{}, highest: map[string]uint64{}}
}

// begin starts a tour on a goroutine of its client.
func (r *recipes) begin(t *tour) {
	ctx, cancel := context.WithCancel(client.NameSteps(context.Background(), t.name))
	t.world, t.cancel = r.world, cancel
	r.mu.Lock()
	r.tours = append(r.tours, t)
	r.mu.Unlock()
	t.client.working.Go(func() {
		t.finish(t.run(ctx))
		cancel()
	})
	synctest.Wait()
	r.world.collectResults()
}

// set changes what is known of a tour.
func (t *tour) set(f func()) {
	r := &t.world.recipes
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// later has the world look at the tour once everything is quiet.
func (t *tour) later(f func()) { t.world.history.later(t.client.name+"/"+t.name, f) }

func (t *tour) finish(err error) {
	t.set(func() { t.state, t.err = tourOver, err })
	t.later(func() { t.world.trace("tour %s of %s is over: %v", t.name, t.client.name, err) })
}

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
