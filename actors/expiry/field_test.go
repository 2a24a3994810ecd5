package expiry

import (
	"testing"

	"github.com/concord-kv/concord/messages"
)

// A new leader asks for one page of what is due and takes it from there, however many
// leases there are: what it does when it is elected does not depend on their number.
func TestB012PromotionWork(t *testing.T) {
	r := newRig(t)
	r.own()
	r.pass(20)
	if len(r.questions) != 1 || len(r.proposals) != 0 {
		t.Fatalf("%d questions, %d proposals", len(r.questions), len(r.proposals))
	}
	q := r.question()
	if q.GetLimit() == 0 || q.GetLimit() > 100*messages.ExpireLeasesMax {
		t.Fatalf("it asks for %d leases at once", q.GetLimit())
	}
	// Nothing is due: that was all.
	r.answer(q, 0, 100_000+60_000)
	r.pass(900)
	if len(r.questions) != 0 || len(r.proposals) != 0 {
		t.Fatalf("%d questions, %d proposals", len(r.questions), len(r.proposals))
	}
}

// A follower keeps no book of leases, and a leader that is deposed forgets what it knew.
func TestB026FollowersKeepNoBooks(t *testing.T) {
	r := newRig(t)
	r.pass(60_000)
	r.own()
	r.pass(20)
	r.answer(r.question(), 50, 0)
	if len(r.proposals) == 0 {
		t.Fatal("nothing was proposed")
	}
	r.core.clockOwned(&messages.ClockOwned{})
	r.questions, r.ticks = nil, nil
	r.fail() // what it had proposed comes to nothing, and is not tried again
	r.pass(60_000)
	if n := len(r.questions) + len(r.proposals) + len(r.ticks); n != 0 {
		t.Fatalf("it did %d things without owning the clock", n)
	}
}
