package session

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// turnstile lets few sessions at a time do what takes long: reads of more than a few keys. The
// others wait, one line for each client, and the lines are served in turn. So however many
// connections ask for much, the processors are left to short calls, and a client that
// asks now and then waits for one answer of each other client at most.
//
// While the processors are busy and short calls are in flight, a place rests after each
// read for restFactor times as long as the read took. Where they are not, it never does.
type turnstile struct {
	short func() bool // calls are in flight that do not take long

	mu    sync.Mutex
	free  int
	lines []*line // the first is served next
	owed  time.Duration

	busy atomic.Bool
	// As of the last measure; of its caller alone.
	measuredMs int64
	used       time.Duration
}

type line struct {
	of      *client
	waiting []chan struct{}
}

const (
	// restFactor: beside others, reads that take long have a quarter of their places' time.
	restFactor = 3
	// restMin is the least that a timer is worth; restMax bounds what one read can cost the
	// next ones.
	restMin = time.Millisecond
	restMax = 250 * time.Millisecond
	// busyPart is the part of the processors that a node must use to count as busy.
	busyPart = 0.5
)

func newTurnstile(short func() bool) *turnstile {
	return &turnstile{short: short, free: max(1, runtime.GOMAXPROCS(0)*3/4)}
}

// measure is told what the process has used of the processors so far.
func (g *turnstile) measure(nowMs int64, used time.Duration) {
	passed := time.Duration(nowMs-g.measuredMs) * time.Millisecond
	g.busy.Store(g.measuredMs != 0 && float64(used-g.used) >= busyPart*float64(passed)*float64(runtime.GOMAXPROCS(0)))
	g.measuredMs, g.used = nowMs, used
}

// enter waits for a place. Whoever has one waits for nothing until it leaves.
func (g *turnstile) enter(of *client) {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	for _, l := range g.lines {
		if l.of == of {
			l.waiting = append(l.waiting, turn)
			g.mu.Unlock()
			<-turn
			return
		}
	}
	g.lines = append(g.lines, &line{of, []chan struct{}{turn}})
	g.mu.Unlock()
	<-turn
}

// leave gives the place to the next, now or once it has rested for a read that took so long.
func (g *turnstile) leave(took time.Duration) {
	if rest := g.rest(took); rest > 0 {
		time.AfterFunc(rest, g.give)
		return
	}
	g.give()
}

// rest is how long a place has to rest.
func (g *turnstile) rest(took time.Duration) time.Duration {
	if !g.busy.Load() || !g.short() {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.owed += restFactor * took; g.owed < restMin {
		return 0
	}
	owed := min(g.owed, restMax)
	g.owed = 0
	return owed
}

// give gives a place to the next.
func (g *turnstile) give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lines) == 0 {
		g.free++
		return
	}
	first := g.lines[0]
	g.lines = append(g.lines[:0], g.lines[1:]...)
	close(first.waiting[0])
	if first.waiting = first.waiting[1:]; len(first.waiting) > 0 {
		g.lines = append(g.lines, first)
	}
}
