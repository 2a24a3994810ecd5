package sim

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/election"
	"github.com/concord-kv/concord/actors/client/fence"
	"github.com/concord-kv/concord/actors/client/lease"
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
