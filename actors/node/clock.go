package node

import "time"

// Clock is where a node gets its time. Tests give their own and advance it.
type Clock interface {
	// MonotonicMs never goes back and does not follow the time of day. The lease
	// clock's stamps come from it.
	MonotonicMs() int64
	// WallMs is the time of day, in milliseconds since 1970. It is shown to
	// people; nothing is decided from it.
	WallMs() int64
	// Every calls fn about every interval on a goroutine of its own, never twice at
	// once, until stop is called. After stop has returned fn is not running and
	// will not run.
	Every(interval time.Duration, fn func()) (stop func())
}

// systemClock is the machine's. Go's monotonic clock stands still while a machine
// is suspended; leases then live longer, never shorter.
type systemClock struct{ start time.Time }

// SystemClock returns the machine's clock.
func SystemClock() Clock { return systemClock{start: time.Now()} }

// MonotonicMs implements Clock. It starts at 1: some use 0 for "never".
func (c systemClock) MonotonicMs() int64 { return 1 + time.Since(c.start).Milliseconds() }

// WallMs implements Clock.
func (c systemClock) WallMs() int64 { return time.Now().UnixMilli() }

// Every implements Clock. Ticks that fn is too slow for are dropped.
func (c systemClock) Every(interval time.Duration, fn func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				fn()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// processorTimeBy is how a node that goes by this clock learns how busy the processors are:
// not at all by a clock of a test's own, where what happens must not depend on the machine.
func processorTimeBy(c Clock) func() time.Duration {
	if _, ok := c.(systemClock); ok {
		return processorTime
	}
	return nil
}

// elapsedBy is how such a node measures what takes less than a millisecond.
func elapsedBy(c Clock) func() time.Duration {
	if s, ok := c.(systemClock); ok {
		return func() time.Duration { return time.Since(s.start) }
	}
	return nil
}
