package peers

import (
	"errors"
	"sync"
	"time"

	"github.com/concord-kv/concord/messages"
)

const (
	// beatEvery is how often both sides say that they live.
	beatEvery = 200 * time.Millisecond
	// silentBeatsMax beats without a word end a link. Beats are counted, not time: a
	// node that was suspended itself must not blame the other.
	silentBeatsMax = 15
)

// conn is an open link, whoever dialled it: a queue with a writer before the stream,
// beats, and a reader.
type conn struct {
	stream Stream
	cut    func() // ends the stream, and with it a blocked send or receive
	mesh   *Mesh

	// Of the beats alone.
	seen   uint64 // the version of the addresses that were told
	silent int    // beats since something was heard

	mu     sync.Mutex
	queue  []outgoing
	bytes  int
	closed bool
	err    error // why it was closed
	heard  bool  // something, since the last beat

	wake chan struct{}
	done chan struct{}
}

type outgoing struct {
	message *messages.PeerMessage
	bytes   int
	sending func() // called before it is handed to the stream
}

var errQueueFull = errors.New("the other node does not read")
var errSilent = errors.New("nothing heard from the other node")

func newConn(s Stream, cut func(), m *Mesh) *conn {
	return &conn{stream: s, cut: cut, mesh: m, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// push queues a message. It returns false when the link is over; sending is then not
// called.
func (c *conn) push(m *messages.PeerMessage, sending func()) bool {
	bytes := messages.MessageSize(m)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	if len(c.queue) > 0 && c.bytes+bytes > queueBytesMax {
		c.mu.Unlock()
		c.close(errQueueFull)
		return false
	}
	c.queue = append(c.queue, outgoing{m, bytes, sending})
	c.bytes += bytes
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// close ends the link. The first reason is kept.
func (c *conn) close(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed, c.err = true, err
	c.queue, c.bytes = nil, 0
	close(c.done)
	c.cut()
}

// serve reads until the link is over and returns why. Nothing of it runs afterwards.
func (c *conn) serve(handle func(*messages.PeerMessage)) error {
	var group sync.WaitGroup
	group.Go(c.write)
	c.beat()
	stop := c.mesh.every()(beatEvery, c.tick)
	for {
		m := new(messages.PeerMessage)
		if err := c.stream.RecvMsg(m); err != nil {
			c.close(err)
			break
		}
		c.mu.Lock()
		c.heard = true
		c.mu.Unlock()
		if g := m.GetGoodbye(); g != nil {
			c.close(messages.ErrorFrom(g.GetReason()))
			break
		}
		handle(m)
	}
	stop()
	group.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *conn) write() {
	for {
		c.mu.Lock()
		batch := c.queue
		c.queue, c.bytes = nil, 0
		c.mu.Unlock()
		for _, o := range batch {
			if c.over() {
				return
			}
			if o.sending != nil {
				o.sending()
			}
			if err := c.stream.SendMsg(o.message); err != nil {
				c.close(err)
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
	}
}

func (c *conn) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// tick notices silence and sends a beat.
func (c *conn) tick() {
	c.mu.Lock()
	if c.silent++; c.heard {
		c.silent, c.heard = 0, false
	}
	c.mu.Unlock()
	if c.silent >= silentBeatsMax {
		c.close(errSilent)
		return
	}
	c.beat()
}

// beat says that this node lives.
func (c *conn) beat() {
	var m *messages.PeerMessage
	m, c.seen = c.mesh.beat(c.seen)
	c.push(m, nil)
}
