package transport

import (
	"net"
	"sync"
	"sync/atomic"
)

// Bounded returns a listener that has at most so many connections open at a time; one more
// is closed at once, so that its client goes elsewhere. It is for listeners that are not
// ServeGRPC's, which bounds its own: each connection is an open file, and a process that has
// no more of them cannot write its log.
func Bounded(l net.Listener, connectionsMax int) net.Listener {
	return &bounded{Listener: l, max: int64(connectionsMax)}
}

type bounded struct {
	net.Listener
	max  int64
	open atomic.Int64
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= b.max {
			return &boundedConn{Conn: c, close: sync.OnceFunc(func() { b.open.Add(-1) })}, nil
		}
		b.open.Add(-1)
		_ = c.Close() // it is one too many
	}
}

type boundedConn struct {
	net.Conn
	close func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.close()
	return c.Conn.Close()
}
