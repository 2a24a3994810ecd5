package session

import (
	"runtime"
	"sync"
)

// turnstile lets few sessions at a time do what takes long: reads of more than a few keys. The
// others wait, one line for each client, and the lines are served in turn. So however many
// connections ask for much, the processors are left to short calls, and a client that
// asks now and then waits for one answer of each other client at most.
type turnstile struct {
	mu    sync.Mutex
	free  int
	lines []*line // the first is served next
}

type line struct {
	of      *client
	waiting []chan struct{}
}

func newTurnstile() *turnstile { return &turnstile{free: max(1, runtime.GOMAXPROCS(0)*3/4)} }

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

// leave gives the place to the next.
func (g *turnstile) leave() {
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
