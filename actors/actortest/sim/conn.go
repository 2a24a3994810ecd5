package sim

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a connection: a net.Conn.
type conn struct {
	net    *network
	number int
	client string // both ends know who they join
	node   uint64
	dialer uint64 // the node that dialled; 0: a client has
	atNode bool
	peer   *conn

	mu      sync.Mutex
	arrived *sync.Cond
	in      []byte // to be read
	out     []byte // written, not delivered
	marks   []int  // the sizes of the writes in out
	closed  bool   // here
	told    bool   // a Read that waits here knows of it
	fin     bool   // the peer's close arrived
	finSent bool   // this close arrived at the peer
	cut     bool   // reset: nothing works any more
	readBy  time.Time
	wakeUp  *time.Timer
}

// sendable says whether something of c waits to be delivered to its peer: bytes, or
// the news that c was closed.
func (c *conn) sendable() bool {
	_, sendable, _ := c.look()
	return sendable
}

// look says at once whether a Read that waits must be told of a close, whether something
// waits to be delivered, and whether both ends are done with.
func (c *conn) look() (untold, sendable, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed && !c.told, !c.cut && (len(c.out) > 0 || c.closed && !c.finSent),
		c.cut && (c.told || !c.closed) || c.closed && c.told && c.fin && c.finSent
}

// deliver moves one write of c to the peer, or a part of it that part chooses from its
// size; the close of c comes after all of them. It returns what was moved.
func (c *conn) deliver(part func(size int) int) []byte {
	c.mu.Lock()
	fin := c.closed && len(c.out) == 0
	n := 0
	if len(c.marks) > 0 {
		n = part(c.marks[0])
		if c.marks[0] -= n; c.marks[0] == 0 {
			c.marks = c.marks[1:]
		}
	}
	moved := c.out[:n:n]
	c.out = c.out[n:]
	c.finSent = c.finSent || fin
	c.mu.Unlock()
	p := c.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.in = append(p.in, moved...)
	}
	p.fin = p.fin || fin
	p.arrived.Broadcast()
	return moved
}

// reset breaks the connection for both ends at once.
func (c *conn) reset() {
	for _, e := range []*conn{c, c.peer} {
		e.mu.Lock()
		e.cut = true
		e.in, e.out, e.marks = nil, nil, nil
		e.arrived.Broadcast()
		e.mu.Unlock()
	}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.told:
			return 0, net.ErrClosed
		case len(c.in) > 0 && !c.closed:
			n := copy(b, c.in)
			c.in = c.in[n:]
			return n, nil
		case c.cut:
			return 0, errReset
		case c.fin:
			return 0, io.EOF
		case !c.readBy.IsZero() && !time.Now().Before(c.readBy):
			return 0, os.ErrDeadlineExceeded
		}
		c.arrived.Wait()
	}
}

// Write implements net.Conn. It never blocks: what is written waits in the network.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.cut:
		return 0, errReset
	}
	if len(b) > 0 {
		c.out = append(c.out, b...)
		c.marks = append(c.marks, len(b))
	}
	return len(b), nil
}

// Close implements net.Conn. That a Read waits here is told to it in a step of its own:
// the goroutine that closes and the one that reads must not race.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.wakeUp != nil {
		c.wakeUp.Stop()
	}
	if c.net.prompt {
		c.told = true
		c.arrived.Broadcast()
	}
	return nil
}

// tell lets a Read end that waits at a closed end; false if there is no need to.
func (c *conn) tell() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed || c.told {
		return false
	}
	c.told = true
	c.arrived.Broadcast()
	return true
}

// SetDeadline implements net.Conn; writes need none.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readBy = t
	if c.wakeUp != nil {
		c.wakeUp.Stop()
		c.wakeUp = nil
	}
	if !t.IsZero() {
		c.wakeUp = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.arrived.Broadcast()
		})
	}
	c.arrived.Broadcast()
	return nil
}

type address string

func (address) Network() string { return "sim" }

func (a address) String() string { return string(a) }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr {
	if c.atNode {
		return address(endpoint(c.node))
	}
	return address(c.client)
}

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.peer.LocalAddr() }

// joins says whether one end of the connection is at a node.
func (c *conn) joins(id uint64) bool { return c.node == id || c.dialer == id }
