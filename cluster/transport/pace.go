package transport

import (
	"net"
	"time"
)

// pacer decides when a connection that was accepted is served: at once while its host, and
// all together, connect no faster than they may; else it waits its turn, host by host. A
// handshake costs the node far more than whoever begins it, a socket that waits costs
// nothing, and one that is closed would only be dialled again.
type pacer struct {
	perHost, perNode float64 // a second
	node             bucket
	hosts            map[string]*hostPace
	waiting          []*hostPace // those with connections that wait, the next first
}

// paceSeconds is how many seconds' worth may connect at once.
const paceSeconds = 8

// paceEvery is how often connections that wait are looked at.
const paceEvery = 10 * time.Millisecond

// hostsMax is how many hosts are remembered before those that are idle are forgotten.
const hostsMax = 1024

type hostPace struct {
	bucket
	conns []*conn
}

// bucket is what may still connect at once.
type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) fill(now time.Time, rate float64) {
	b.left = min(b.left+now.Sub(b.at).Seconds()*rate, rate*paceSeconds)
	b.at = now
}

func newPacer(o ServerOptions, now time.Time) *pacer {
	p := &pacer{perHost: float64(o.ConnectsPerHostMax), perNode: float64(o.ConnectsMax), hosts: make(map[string]*hostPace)}
	p.node = bucket{p.perNode * paceSeconds, now}
	return p
}

// offer reports whether c may be served now; else it waits for next.
func (p *pacer) offer(c *conn, now time.Time) bool {
	h := p.hosts[c.host]
	if h == nil {
		if len(p.hosts) >= hostsMax {
			p.forget(now)
		}
		h = &hostPace{bucket: bucket{p.perHost * paceSeconds, now}}
		p.hosts[c.host] = h
	}
	if len(h.conns) == 0 && p.take(h, now) {
		return true
	}
	if h.conns = append(h.conns, c); len(h.conns) == 1 {
		p.waiting = append(p.waiting, h)
	}
	return false
}

func (p *pacer) take(h *hostPace, now time.Time) bool {
	p.node.fill(now, p.perNode)
	h.fill(now, p.perHost)
	if p.node.left < 1 || h.left < 1 {
		return false
	}
	p.node.left--
	h.left--
	return true
}

// next returns the connections that have waited long enough, one of each host in turn.
func (p *pacer) next(now time.Time) (due []*conn) {
	for misses := 0; misses < len(p.waiting); {
		h := p.waiting[0]
		p.waiting = append(p.waiting[:0], p.waiting[1:]...)
		for len(h.conns) > 0 && h.conns[0].closed.Load() {
			h.conns = h.conns[1:] // it waited for longer than a silent one may
		}
		if len(h.conns) > 0 && p.take(h, now) {
			due = append(due, h.conns[0])
			h.conns = h.conns[1:]
			misses = 0
		} else {
			misses++
		}
		if len(h.conns) > 0 {
			p.waiting = append(p.waiting, h)
		}
	}
	return due
}

// forget lets go of hosts that have been idle.
func (p *pacer) forget(now time.Time) {
	for host, h := range p.hosts {
		if h.fill(now, p.perHost); len(h.conns) == 0 && h.left >= p.perHost*paceSeconds {
			delete(p.hosts, host)
		}
	}
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// run accepts connections, and passes on those whose turn it is.
func (l *limitListener) run() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			select {
			case l.ready <- accepted{err: err}:
				continue // what is final, the caller stops asking after
			case <-l.closed:
				return
			}
		}
		t := l.admit(c)
		if t == nil {
			l.counters.connectionsRefused.Add(1)
			l.refusals.Add(l.logger, hostOf(c.RemoteAddr()), "too many connections")
			_ = c.Close()
			continue
		}
		l.mu.Lock()
		now := l.pace.offer(t, time.Now())
		if !now && !l.pacing {
			l.pacing = true
			time.AfterFunc(paceEvery, l.release)
		}
		l.mu.Unlock()
		if now {
			l.pass(t)
		} else {
			l.counters.connectionsPaced.Add(1)
		}
	}
}

// release passes on what has waited, and looks again later if there is more.
func (l *limitListener) release() {
	l.mu.Lock()
	due := l.pace.next(time.Now())
	if l.pacing = len(l.pace.waiting) > 0; l.pacing {
		time.AfterFunc(paceEvery, l.release)
	}
	l.mu.Unlock()
	for _, c := range due {
		l.pass(c)
	}
}

func (l *limitListener) pass(c *conn) {
	select {
	case l.ready <- accepted{conn: c}:
	case <-l.closed:
		_ = c.Close()
	}
}
