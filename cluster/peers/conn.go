package peers

import (
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// stream is one end of a gRPC stream of PeerMessages.
type stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

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
	stream stream
	cut    func() // ends the stream, and with it a blocked send or receive
	beat   func(seen uint64) (m *messages.PeerMessage, version uint64)

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

func newConn(s stream, cut func(), beat func(uint64) (*messages.PeerMessage, uint64)) *conn {
	return &conn{stream: s, cut: cut, beat: beat, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// push queues a message. It returns false when the link is over; sending is then not
// called.
func (c *conn) push(m *messages.PeerMessage, sending func()) bool {
	bytes := proto.Size(m)
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
	group.Go(c.tick)
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

// tick sends beats and notices silence.
func (c *conn) tick() {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	var (
		silent int
		seen   uint64
	)
	for {
		var m *messages.PeerMessage
		m, seen = c.beat(seen)
		c.push(m, nil)
		select {
		case <-ticker.C:
		case <-c.done:
			return
		}
		c.mu.Lock()
		if silent++; c.heard {
			silent, c.heard = 0, false
		}
		c.mu.Unlock()
		if silent >= silentBeatsMax {
			c.close(errSilent)
			return
		}
	}
}
