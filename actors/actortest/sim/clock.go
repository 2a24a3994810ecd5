package sim

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// hand is the monotonic clock of one machine: it runs at its own rate.
type hand struct {
	world *World
	rate  float64 // 1 is right
	// local was the reading when the world's time was real.
	local, real time.Duration
}

func (h *hand) read() time.Duration {
	return h.local + time.Duration(float64(time.Duration(h.world.shared.Load())-h.real)*h.rate)
}

// setRate changes the rate from now on.
func (h *hand) setRate(rate float64) {
	h.local, h.real, h.rate = h.read(), h.world.now, rate
}

// after returns the world's time when the clock will have gone on by d.
func (h *hand) after(d time.Duration) time.Duration {
	return time.Duration(h.world.shared.Load()) + time.Duration(float64(d)/h.rate)
}

// nodeClock is a node's: node.Clock.
type nodeClock struct {
	hand
	wallOffset time.Duration
	mu         sync.Mutex // goroutines of links set tickers
	tickers    []*ticker
}

type ticker struct {
	every time.Duration
	next  time.Duration // by the node's own clock
	fn    func()
}

// startMs keeps readings away from 0, which some take for "never".
const startMs = 1_000

// MonotonicMs implements node.Clock.
func (c *nodeClock) MonotonicMs() int64 { return startMs + c.read().Milliseconds() }

// wallStart is some day in 2026.
const wallStart = 1_780_000_000_000

// WallMs implements node.Clock.
func (c *nodeClock) WallMs() int64 { return wallStart + (c.read() + c.wallOffset).Milliseconds() }

// Every implements node.Clock.
func (c *nodeClock) Every(interval time.Duration, fn func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &ticker{every: interval, next: c.read() + interval, fn: fn}
	c.tickers = append(c.tickers, t)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := slices.Index(c.tickers, t); i >= 0 {
			c.tickers = slices.Delete(c.tickers, i, i+1)
		}
	}
}

// reset forgets all tickers: those of a boot that is over.
func (c *nodeClock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tickers = nil
}

// due returns a ticker that is due; ticks that were missed are dropped.
func (c *nodeClock) due() *ticker {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.read()
	for _, t := range c.tickers {
		if t.next <= now {
			return t
		}
	}
	return nil
}

func (t *ticker) fire(now time.Duration) {
	for t.next <= now {
		t.next += t.every
	}
	t.fn()
}

// clientClock is a client's: client.Clock. Its timers are fired by the world.
type clientClock struct {
	mu     sync.Mutex
	hand   hand
	timers []*timer
	turns  []turn // goroutines that wait for their turn
	// calls: each call of the client waits for its turn as well. A client that does one
	// thing at a time needs none.
	calls bool
	ended bool // nobody waits any more
}

type turn struct {
	what string
	may  chan struct{}
}

// Step implements client.Stepper: the renewal of leases is a step of its own, else it
// would race with the writer for the next message.
func (c *clientClock) Step(what string) {
	if !c.calls && strings.HasPrefix(what, client.StepCall) {
		return
	}
	t := turn{what, make(chan struct{})}
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	i, _ := slices.BinarySearchFunc(c.turns, what, func(o turn, what string) int { return strings.Compare(o.what, what) })
	c.turns = slices.Insert(c.turns, i, t)
	c.mu.Unlock()
	<-t.may
}

// end lets all go on: the client is closed, and what one of its goroutines still wants of
// it fails at once.
func (c *clientClock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, t := range c.turns {
		close(t.may)
	}
	c.turns = nil
}

func (c *clientClock) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turns)
}

// goOn lets the i-th of those who wait go on and says who it was.
func (c *clientClock) goOn(i int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.turns[i]
	c.turns = slices.Delete(c.turns, i, i+1)
	close(t.may)
	return t.what
}

type timer struct {
	clock *clientClock
	at    time.Duration // by the world's time
	label string        // who set it: an order that does not depend on goroutines
	f     func()
	armed bool
}

// Now implements client.Clock.
func (c *clientClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Second + c.hand.read()
}

// AfterFunc implements client.Clock.
func (c *clientClock) AfterFunc(d time.Duration, f func()) client.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{clock: c, label: runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name(), f: f}
	t.arm(d)
	return t
}

func (t *timer) arm(d time.Duration) {
	t.at = t.clock.hand.after(d)
	if !t.armed {
		t.armed = true
		t.clock.timers = append(t.clock.timers, t)
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
	t.disarm()
	return was
}

func (t *timer) disarm() {
	if t.armed {
		t.armed = false
		list := t.clock.timers
		for i, o := range list {
			if o == t {
				t.clock.timers = append(list[:i], list[i+1:]...)
				break
			}
		}
	}
}

// take removes and returns the first timer that is due, nil if none is. Timers of one
// instant go by who set them, then by age.
func (c *clientClock) take(now time.Duration) *timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.firstDue(now)
	if t != nil {
		t.disarm()
	}
	return t
}

func (c *clientClock) isDue(now time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.firstDue(now) != nil
}

func (c *clientClock) firstDue(now time.Duration) *timer {
	var first *timer
	for _, t := range c.timers {
		if t.at <= now && (first == nil || t.at < first.at || t.at == first.at && t.label < first.label) {
			first = t
		}
	}
	return first
}
