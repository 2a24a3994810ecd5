package sim

import (
	"errors"
	"net"
	"sync"
	"testing/synctest"
)

// network joins clients and nodes. Bytes that were written wait until the world
// delivers them, some or all of them, to the other end, in order.
type network struct {
	mu    sync.Mutex
	conns []*conn // both ends of all that are open, in order of their making
	dials []*dialing
	made  int
	// prompt tells closes at once: gRPC waits for its reader under a lock, which a bubble
	// cannot see through.
	prompt bool
}

// dialing is a client that waits for a connection.
type dialing struct {
	client   string
	from     uint64 // the node that dials; 0: a client does
	node     uint64
	endpoint string
	done     chan dialed // has room for one
	over     bool
}

type dialed struct {
	conn net.Conn
	err  error
}

var (
	errReset   = errors.New("sim: connection reset")
	errRefused = errors.New("sim: connection refused")
)

// dial queues a wish; the world decides what becomes of it.
func (n *network) dial(client string, from, node uint64, endpoint string) *dialing {
	d := &dialing{client: client, from: from, node: node, endpoint: endpoint, done: make(chan dialed, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials = append(n.dials, d)
	return d
}

func (n *network) forget(d *dialing) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d.over = true
}

// connect makes the two ends of a connection.
func (n *network) connect(d *dialing) (clientEnd, nodeEnd *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made++
	a := &conn{net: n, number: 2 * n.made, client: d.client, node: d.node, dialer: d.from}
	b := &conn{net: n, number: 2*n.made + 1, client: d.client, node: d.node, dialer: d.from, atNode: true}
	a.peer, b.peer = b, a
	a.arrived, b.arrived = sync.NewCond(&a.mu), sync.NewCond(&b.mu)
	n.conns = append(n.conns, a, b)
	return a, b
}

// resetNode breaks all connections of a node.
func (n *network) resetNode(id uint64) {
	n.each(func(c *conn) {
		if c.joins(id) && c.atNode {
			c.reset()
			synctest.Wait() // what each sets off must not race with the next
		}
	})
}

// flush delivers what a node that is being closed still says; nothing of it is lost.
func (n *network) flush(id uint64) (moved bool) {
	n.each(func(c *conn) {
		if c.joins(id) && c.tell() {
			moved = true
			synctest.Wait()
		}
		if c.joins(id) && c.sendable() {
			c.deliver(func(size int) int { return size })
			moved = true
			synctest.Wait()
		}
	})
	return moved
}

// survey has f look at the open connections in order and forgets those that are over. f
// must change nothing.
func (n *network) survey(f func(c *conn, untold, sendable bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	kept := n.conns[:0]
	for _, c := range n.conns {
		untold, sendable, over := c.look()
		if over {
			continue
		}
		kept = append(kept, c)
		if untold || sendable {
			f(c, untold, sendable)
		}
	}
	clear(n.conns[len(kept):])
	n.conns = kept
}

// each visits the open connections in order and forgets those that are over.
func (n *network) each(f func(*conn)) {
	n.mu.Lock()
	kept := n.conns[:0]
	for _, c := range n.conns {
		if _, _, over := c.look(); !over {
			kept = append(kept, c)
		}
	}
	clear(n.conns[len(kept):])
	n.conns = kept
	list := append([]*conn(nil), kept...)
	n.mu.Unlock()
	for _, c := range list {
		f(c)
	}
}
