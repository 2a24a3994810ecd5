package etcd

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// conn is one connection to a session: it numbers calls, gathers those that come
// together into frames, and hands each answer to its caller. Its methods may be called
// from any goroutine.
type conn struct {
	stream Stream
	epoch  uint64
	hello  *messages.ServerHello
	done   chan struct{}
	// onWatch is given the batches and ends of watches, one at a time and in order; it must
	// not block. nil on a connection without watches.
	onWatch func(*messages.ServerMessage)

	mu      sync.Mutex
	next    uint64 // number of the last call
	calls   map[uint64]chan *messages.Reply
	queue   []*messages.Operation // not sent yet: the calls up to next
	sending bool
	letters []*messages.ClientMessage // what is sent without anybody waiting for it
	err     error                     // set before done is closed

	wake chan struct{} // there are letters
}

func newConn(stream Stream, onWatch func(*messages.ServerMessage)) *conn {
	return &conn{
		stream: stream, epoch: randomEpoch(), done: make(chan struct{}),
		onWatch: onWatch, calls: make(map[uint64]chan *messages.Reply), wake: make(chan struct{}, 1),
	}
}

// open says hello and begins to read. After an error the stream is closed.
func (c *conn) open(name string, who *messages.Credentials) error {
	err := c.stream.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{
		Protocol: messages.ProtocolVersion, ClientName: name, ClientEpoch: c.epoch, Credentials: who,
	}}})
	if err == nil {
		err = c.awaitHello()
	}
	if err != nil {
		_ = c.stream.Close() // the error before says why
		return err
	}
	go c.read()
	go c.beat()
	return nil
}

func (c *conn) awaitHello() error {
	m, err := c.stream.Recv()
	switch {
	case err != nil:
		return err
	case m.GetHello() != nil:
		c.hello = m.GetHello()
		return nil
	case m.GetGoodbye() != nil:
		return messages.ErrorFrom(m.GetGoodbye().GetReason())
	}
	return messages.NewError(messages.Code_CODE_PROTOCOL, "a session that does not say hello")
}

func randomEpoch() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// start sends an operation; its answer comes on the channel, which is closed without one
// when the connection ends.
func (c *conn) start(op *messages.Operation) (call uint64, answer chan *messages.Reply, err error) {
	answer = make(chan *messages.Reply, 1)
	c.mu.Lock()
	if c.err != nil {
		err = c.err
		c.mu.Unlock()
		return 0, nil, err
	}
	c.next++
	call = c.next
	c.calls[call] = answer
	c.queue = append(c.queue, op)
	if c.sending {
		c.mu.Unlock() // whoever sends takes it along
		return call, answer, nil
	}
	c.sending = true
	for len(c.queue) > 0 && c.err == nil {
		frame := c.takeFrame()
		c.mu.Unlock()
		failed := c.stream.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: frame}})
		c.mu.Lock()
		if failed != nil {
			c.endLocked(failed)
		}
	}
	c.sending = false
	c.mu.Unlock()
	return call, answer, nil
}

// takeFrame takes what fits into a frame off the queue. The lock is held.
func (c *conn) takeFrame() *messages.Frame {
	n, bytes := 0, 0
	for n < len(c.queue) && n < messages.FrameOperationsMax {
		size := proto.Size(c.queue[n])
		if n > 0 && bytes+size > messages.FrameBytesMax {
			break
		}
		bytes += size
		n++
	}
	f := &messages.Frame{
		ClientEpoch: c.epoch, FirstCall: c.next - uint64(len(c.queue)) + 1,
		TimeoutMs: uint32(requestTimeout.Milliseconds()), Operations: c.queue[:n:n],
	}
	if c.queue = c.queue[n:]; len(c.queue) == 0 {
		c.queue = nil
	}
	return f
}

// wait waits for an answer.
func (c *conn) wait(ctx context.Context, call uint64, answer chan *messages.Reply) (*messages.Reply, error) {
	select {
	case r, ok := <-answer:
		if !ok {
			return nil, c.failure()
		}
		if e := r.GetError(); e != nil {
			return nil, messages.ErrorFrom(e)
		}
		return r, nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.calls, call)
		c.mu.Unlock()
		return nil, ctx.Err()
	}
}

// do is start and wait.
func (c *conn) do(ctx context.Context, op *messages.Operation) (*messages.Reply, error) {
	call, answer, err := c.start(op)
	if err != nil {
		return nil, err
	}
	return c.wait(ctx, call, answer)
}

// tell sends what is not answered.
func (c *conn) tell(m *messages.ClientMessage) {
	if err := c.stream.Send(m); err != nil {
		c.end(err)
	}
}

// read hands out answers until the connection ends.
func (c *conn) read() {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.end(err)
			return
		}
		switch x := m.GetMessage().(type) {
		case *messages.ServerMessage_Replies:
			c.replied(x.Replies.GetReplies())
		case *messages.ServerMessage_WatchBatch, *messages.ServerMessage_WatchEnd:
			if c.onWatch != nil {
				c.onWatch(m)
			}
		case *messages.ServerMessage_Goodbye:
			c.end(messages.ErrorFrom(x.Goodbye.GetReason()))
			return
		}
	}
}

func (c *conn) replied(list []*messages.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range list {
		if answer := c.calls[r.GetCall()]; answer != nil {
			delete(c.calls, r.GetCall())
			answer <- r
		}
	}
}

// later sends what is not answered, and does not wait for that: the goroutine that reads
// the connection must never wait for room to write.
func (c *conn) later(m *messages.ClientMessage) {
	c.mu.Lock()
	c.letters = append(c.letters, m)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conn) sendLetters() {
	c.mu.Lock()
	list := c.letters
	c.letters = nil
	c.mu.Unlock()
	for _, m := range list {
		c.tell(m)
	}
}

// beat keeps an idle connection alive and sends letters.
func (c *conn) beat() {
	t := time.NewTicker(max(time.Duration(c.hello.GetHeartbeatMs())*time.Millisecond, 100*time.Millisecond))
	defer t.Stop()
	for n := uint64(1); ; {
		select {
		case <-c.wake:
			c.sendLetters()
		case <-t.C:
			n++
			c.tell(&messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: &messages.Heartbeat{Number: n}}})
		case <-c.done:
			return
		}
	}
}

// end ends the connection: what waits for an answer gets none.
func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(err)
}

func (c *conn) endLocked(err error) {
	if c.err != nil {
		return
	}
	if err == nil {
		err = messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "the connection has ended")
	}
	c.err = err
	for call, answer := range c.calls {
		delete(c.calls, call)
		close(answer)
	}
	close(c.done)
	_ = c.stream.Close() // it is over either way
}

// failure is what became of the calls that have no answer.
func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := messages.UnknownOutcome(messages.CodeOf(c.err), "the connection has ended")
	e.Err = c.err
	return e
}

// close ends it from this side.
func (c *conn) close() { c.end(nil) }
