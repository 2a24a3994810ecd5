package node_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/node"
)

// handClock stands still until a test moves it.
type handClock struct {
	nowMs, wallMs atomic.Int64

	mu    sync.Mutex // held while a function runs
	every map[int]func()
	next  int
}

func newHandClock(nowMs int64) *handClock {
	c := &handClock{every: map[int]func(){}}
	c.nowMs.Store(nowMs)
	c.wallMs.Store(1_700_000_000_000)
	return c
}

func (c *handClock) MonotonicMs() int64 { return c.nowMs.Load() }
func (c *handClock) WallMs() int64      { return c.wallMs.Load() }

func (c *handClock) Every(_ time.Duration, fn func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.next
	c.next++
	c.every[id] = fn
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.every, id)
	}
}

// pass lets time pass in steps of 20 ms; the time of day does what it likes.
func (c *handClock) pass(d time.Duration) {
	for range d.Milliseconds() / 20 {
		c.nowMs.Add(20)
		c.mu.Lock()
		for _, fn := range c.every {
			fn()
		}
		c.mu.Unlock()
	}
}

// flow lets time pass, 20 ms each ms, until stop is called.
func (c *handClock) flow() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-pace.C:
				c.pass(20 * time.Millisecond)
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// begin keeps the node's time moving until it is ready: it needs no time to pass,
// but its actors look at the state only when they hear the time.
func (c *handClock) begin(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	cfg.Clock, cfg.StartTimeout = c, -1
	n := start(t, cfg)
	defer c.flow()()
	select {
	case <-n.Ready():
		return n
	case <-time.After(answerWithin):
		t.Fatal("not ready")
		return nil
	}
}

// clockLagMs is how far a node's idea of the lease clock, which it shows, may be behind
// when seconds pass faster than the log can follow.
const clockLagMs = 3_000

// TestWallClockJumps: leases run on monotonic time that passes in the log. Days of
// wall clock, forth and back, change nothing.
func TestWallClockJumps(t *testing.T) {
	clock := newHandClock(1_000_000)
	n := clock.begin(t, node.Config{Dir: t.TempDir()})
	// Each step has a connection of its own: this one would be closed for silence.
	c := connect(t, n)
	c.put("/e/k", "v", c.grant(10*time.Second))
	for _, jump := range []time.Duration{24 * time.Hour, -48 * time.Hour, time.Hour} {
		clock.wallMs.Add(jump.Milliseconds())
		clock.pass(3 * time.Second)
		if connect(t, n).get("/e/k") == nil {
			t.Fatalf("a jump of %v ended a lease", jump)
		}
	}
	if ttl := connect(t, n).get("/e/k").GetRemainingTtlMs(); ttl < 1 || ttl > 1_000+clockLagMs {
		t.Errorf("%d ms are left of the lease, about 1,000 are", ttl)
	}
	w := connect(t, n)
	w.watch("/e/")
	clock.pass(2 * time.Second)
	defer clock.flow()() // expiry takes a step each time it hears the time
	if got, want := w.event(), "EVENT_TYPE_DELETE /e/k 2 EVENT_CAUSE_EXPIRED"; got != want {
		t.Errorf("watched %q, want %q", got, want)
	}
}

// TestStoppedTimeDoesNotCount: while a node is down, leases do not age.
func TestStoppedTimeDoesNotCount(t *testing.T) {
	dir := t.TempDir()
	clock := newHandClock(1_000_000)
	n := clock.begin(t, node.Config{Dir: dir})
	c := connect(t, n)
	c.put("/k", "v", c.grant(5*time.Second))
	stop(t, n)
	clock = newHandClock(5) // rebooted, an hour later
	clock.wallMs.Add(3_600_000)
	n = clock.begin(t, node.Config{Dir: dir})
	clock.pass(4 * time.Second)
	if connect(t, n).get("/k") == nil {
		t.Error("the lease aged while nothing ran")
	}
}
