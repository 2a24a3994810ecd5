package node

import (
	"testing"

	"github.com/concord-kv/concord/actors/apply"
)

// steppedClock shows what it is told.
type steppedClock struct {
	Clock
	ms int64
}

func (c *steppedClock) MonotonicMs() int64 { return c.ms }

// The lease clock that a node shows goes on between entries, stands still where a new
// leader begins behind what was shown, and never goes back.
func TestShownClockNeverGoesBack(t *testing.T) {
	c := &steppedClock{Clock: SystemClock(), ms: 1_000}
	f := newFacts(Config{Clock: c})
	applied := func(clockMs int64) {
		f.applied.Store(&appliedFacts{Gauges: apply.Gauges{ClockMs: clockMs}, atMs: c.ms})
	}
	show := func(want int64) {
		t.Helper()
		if got := f.Now().ClockMs; got != want {
			t.Fatalf("at %d it shows %d, want %d", c.ms, got, want)
		}
	}
	show(0)
	applied(500)
	show(500)
	c.ms += 900
	show(1_400)
	applied(600) // a new leader's claim: the old one had stamped nothing since
	show(1_400)
	c.ms += 700
	show(1_400)
	c.ms += 200
	show(1_500)
	c.ms += 60_000 // nothing is heard of it
	show(600 + clockStaleMs)
	applied(5_000)
	show(5_000)
}
