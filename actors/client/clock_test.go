package client

import (
	"testing"
	"time"
)

// About is never ahead of Now, a millisecond behind it at most, and right again after the
// machine has slept once Now was called.
func TestAbout(t *testing.T) {
	c := SystemClock().(*systemClock)
	for _, slept := range []time.Duration{0, time.Hour, 0, 5 * time.Millisecond} {
		// As if Go's clock had stood still so long: what About adds is too little by that.
		c.asleep.Add(-int64(slept))
		if late := c.Now() - c.About(); late > 2*time.Millisecond {
			t.Fatalf("after a sleep of %v it is %v behind what Now said before", slept, late)
		}
		for range 10_000 {
			before, about, after := c.Now(), c.About(), c.Now()
			if about > after || about < before-time.Millisecond {
				t.Fatalf("%v is not within %v and %v", about, before-time.Millisecond, after)
			}
		}
	}
}

func BenchmarkClock(b *testing.B) {
	c := SystemClock().(*systemClock)
	b.Run("now", func(b *testing.B) {
		for b.Loop() {
			c.Now()
		}
	})
	b.Run("about", func(b *testing.B) {
		for b.Loop() {
			c.About()
		}
	})
}
