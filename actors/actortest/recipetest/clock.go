package recipetest

import (
	"sync"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/node"
)

// Clock runs with real time, and further ahead with each Jump. It is a client's clock
// and a node's.
type Clock struct {
	mu      sync.Mutex
	start   time.Time
	skipped time.Duration
	frozen  bool
	timers  map[*timer]struct{}
}

// NewClock returns a clock that starts at one second.
func NewClock() *Clock {
	return &Clock{start: time.Now(), skipped: time.Second, timers: map[*timer]struct{}{}}
}

type timer struct {
	clock *Clock
	f     func()
	due   time.Duration
	real  *time.Timer
	armed bool
}

// Now implements client.Clock.
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Duration { return time.Since(c.start) + c.skipped }

// Jump moves the clock ahead; what is due then runs at once, unless it is frozen.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped += d
	c.rearm()
}

// Freeze keeps timers from running while the time goes on, until Thaw: a process whose
// background work hangs.
func (c *Clock) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = true
	c.rearm()
}

// Thaw ends Freeze.
func (c *Clock) Thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = false
	c.rearm()
}

func (c *Clock) rearm() {
	for t := range c.timers {
		t.real.Stop()
		if !c.frozen {
			t.real.Reset(max(t.due-c.now(), 0))
		}
	}
}

// AfterFunc implements client.Clock.
func (c *Clock) AfterFunc(d time.Duration, f func()) client.Timer {
	t := &timer{clock: c, f: f}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.real = time.AfterFunc(time.Hour, t.run)
	t.arm(d)
	return t
}

func (t *timer) arm(d time.Duration) {
	t.armed, t.due = true, t.clock.now()+d
	t.clock.timers[t] = struct{}{}
	t.real.Stop()
	if !t.clock.frozen {
		t.real.Reset(max(d, 0))
	}
}

func (t *timer) run() {
	t.clock.mu.Lock()
	run := t.armed && !t.clock.frozen && t.due <= t.clock.now()
	if run {
		t.armed = false
		delete(t.clock.timers, t)
	}
	t.clock.mu.Unlock()
	if run {
		t.f()
	}
}

// Reset implements client.Timer.
func (t *timer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.armed
	t.arm(d)
	return was
}

// Stop implements client.Timer.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.armed
	t.armed = false
	delete(t.clock.timers, t)
	t.real.Stop()
	return was
}

// MonotonicMs implements node.Clock.
func (c *Clock) MonotonicMs() int64 { return c.Now().Milliseconds() }

// WallMs implements node.Clock.
func (c *Clock) WallMs() int64 { return time.Now().UnixMilli() }

// Every implements node.Clock. Jumps do not hurry it.
func (c *Clock) Every(interval time.Duration, fn func()) (stop func()) {
	return node.SystemClock().Every(interval, fn)
}
