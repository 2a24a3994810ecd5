package transport

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// limitListener bounds the connections of a listener and closes those that carry
// no stream. gRPC's own limits start once a connection has proven to be HTTP/2;
// these hold from the first byte.
type limitListener struct {
	net.Listener
	connectionsMax, perHostMax int
	idle                       time.Duration
	logger                     *slog.Logger
	refusals                   Refusals
	counters                   *serverCounters

	ready  chan accepted
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	open   map[*conn]struct{}
	byHost map[string]int
	pace   *pacer
	pacing bool // a look at those that wait is due
}

func newLimitListener(l net.Listener, o ServerOptions, c *serverCounters) *limitListener {
	t := &limitListener{
		Listener:       l,
		connectionsMax: o.ConnectionsMax,
		perHostMax:     o.ConnectionsPerHostMax,
		idle:           o.HandshakeTimeout,
		logger:         o.Logger,
		counters:       c,
		open:           make(map[*conn]struct{}),
		byHost:         make(map[string]int),
		ready:          make(chan accepted),
		closed:         make(chan struct{}),
		pace:           newPacer(o, time.Now()),
	}
	go t.run()
	return t
}

// Accept returns the next connection within the limits, once its host's turn has come. One
// beyond them is closed rather than left in the backlog: its client then tries another node.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listener; connections that waited for their turn are closed.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	err := l.Listener.Close()
	l.mu.Lock()
	var waiting []*conn
	for _, h := range l.pace.waiting {
		waiting = append(waiting, h.conns...)
	}
	l.pace.waiting = nil
	l.mu.Unlock()
	for _, c := range waiting {
		_ = c.Close()
	}
	return err
}

func (l *limitListener) admit(c net.Conn) *conn {
	host := hostOf(c.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.connectionsMax || l.byHost[host] >= l.perHostMax {
		return nil
	}
	t := &conn{Conn: c, listener: l, host: host}
	l.open[t] = struct{}{}
	l.byHost[host]++
	l.counters.connections.Add(1)
	t.mu.Lock()
	t.timer = time.AfterFunc(l.idle, t.cut)
	t.mu.Unlock()
	return t
}

func (l *limitListener) forget(t *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, t)
	l.counters.connections.Add(-1)
	if l.byHost[t.host]--; l.byHost[t.host] <= 0 {
		delete(l.byHost, t.host)
	}
}

// cutSilent closes the connections that never carried a stream. Where one has just
// ended, its last words may still be on the way.
func (l *limitListener) cutSilent() {
	l.mu.Lock()
	open := make([]*conn, 0, len(l.open))
	for t := range l.open {
		open = append(open, t)
	}
	l.mu.Unlock()
	for _, t := range open {
		t.mu.Lock()
		silent := !t.used
		t.mu.Unlock()
		if silent {
			_ = t.Close()
		}
	}
}

// conn counts the streams on a connection. Without one for longer than the
// listener allows, it is closed: this takes silent sockets, sockets that sent
// garbage, and clients that do not read the end of their stream.
type conn struct {
	net.Conn
	listener *limitListener
	host     string
	closed   atomic.Bool

	mu      sync.Mutex
	timer   *time.Timer
	streams int
	used    bool // there was a stream
}

// connAddr is how a stream finds its connection again: gRPC hands the remote
// address through TLS and HTTP/2 unchanged.
type connAddr struct {
	net.Addr
	conn *conn
}

func (c *conn) RemoteAddr() net.Addr { return connAddr{c.Conn.RemoteAddr(), c} }

func (c *conn) streamOpened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams++
	c.used = true
	c.timer.Stop()
}

func (c *conn) streamClosed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams--; c.streams == 0 && !c.closed.Load() {
		c.timer.Reset(c.listener.idle)
	}
}

// cut closes a connection that carries no stream.
func (c *conn) cut() {
	c.mu.Lock()
	idle := c.streams == 0
	c.mu.Unlock()
	if idle {
		c.listener.counters.connectionsIdle.Add(1)
		c.mu.Lock()
		used := c.used
		c.mu.Unlock()
		if !used {
			c.listener.refusals.Add(c.listener.logger, c.host, "it opened no stream")
		}
		_ = c.Close()
	}
}

func (c *conn) Close() error {
	if !c.closed.Swap(true) {
		c.timer.Stop()
		c.listener.forget(c)
	}
	return c.Conn.Close()
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.listener.counters.bytesReceived.Add(uint64(n))
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.listener.counters.bytesSent.Add(uint64(n))
	return n, err
}

func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	return hostOfAddress(a.String())
}

func hostOfAddress(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
