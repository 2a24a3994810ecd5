package mutex_test

import (
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client/session"
)

// Clocks of clients may show whatever they like: nobody compares them.
func TestB208ClocksThatDiffer(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	ahead, behind := w.Client(recipetest.Way), w.Client(recipetest.Way)
	ahead.Clock.Jump(1_000 * time.Hour)
	h := lock(t, newMutex(t, ahead.Session(0), "skew"))
	next := waiter(t, w, ctx, newMutex(t, behind.Session(0), "skew"))
	if left := h.Remaining(); left <= 0 || left > time.Minute {
		t.Fatalf("%v remain", left)
	}
	behind.Pass(10 * time.Second)
	if len(next) != 0 || h.Lease().Err() != nil {
		t.Fatal("the waiter took over by its own clock")
	}
	unlock(t, h)
	got := recipetest.Wait(t, next, "the next holder")
	if got.err != nil || got.held.Remaining() > time.Minute {
		t.Fatal(got.err)
	}
	unlock(t, got.held)
}

// The machine sleeps for ten ttls, in which no timer counts: the first look after the
// wake-up says lost, before a timer has run. A short nap changes nothing.
func TestB210SleepCounts(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	h := lock(t, newMutex(t, r.Session(0), "sleep"))
	r.Clock.Freeze()
	r.Clock.Jump(time.Second)
	if err := h.Check(recipetest.Context(t)); err != nil {
		t.Fatal(err)
	}
	r.Clock.Jump(10 * time.Minute)
	lostBy(t, h.Lease().Err(), session.ErrDeadline)
	if h.Remaining() != 0 {
		t.Fatalf("%v remain", h.Remaining())
	}
	r.Clock.Thaw()
	lostBy(t, awaitLoss(t, h), session.ErrDeadline)
}
