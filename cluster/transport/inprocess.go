package transport

import (
	"context"
	"io"
	"sync"

	"github.com/concord-kv/concord/messages"
)

// InProcessQueueMax is how many messages wait in each direction of an in-process
// stream before Send waits.
const InProcessQueueMax = 256

// NewInProcess returns a dialer whose streams lead to h within this process.
// Messages pass by pointer: no copy is made and nothing is encoded.
func NewInProcess(h Handler) Dialer { return inProcess{h, Peer{Kind: KindInProcess}} }

// NewInProcessFor is NewInProcess for somebody else: peer is who the streams are from, as
// far as this process knows. A stream of KindInProcess is the process's own, which nobody
// asks for rights: whatever is passed on for others must not be.
func NewInProcessFor(h Handler, peer Peer) Dialer { return inProcess{h, peer} }

type inProcess struct {
	handler Handler
	peer    Peer
}

func (d inProcess) Dial(ctx context.Context, endpoint string) (ClientStream, error) {
	if ctx.Err() != nil {
		return nil, dialError(ctx, endpoint, ctx.Err())
	}
	p := &pipe{
		up:         make(chan *messages.ClientMessage, InProcessQueueMax),
		down:       make(chan *messages.ServerMessage, InProcessQueueMax),
		clientDone: make(chan struct{}),
		serverDone: make(chan struct{}),
		peer:       d.peer,
	}
	if p.peer.Address == "" {
		p.peer.Address = endpoint
	}
	s := &pipeServer{pipe: p}
	go func() {
		defer s.Close(nil)
		d.handler(s)
	}()
	return &pipeClient{pipe: p}, nil
}

// pipe is two queues. They are never closed: the done channels end the stream,
// and whoever reads drains its queue first.
type pipe struct {
	up                     chan *messages.ClientMessage
	down                   chan *messages.ServerMessage
	clientDone, serverDone chan struct{}
	clientOnce, serverOnce sync.Once
	reason                 *messages.ErrorDetail // set before serverDone is closed
	peer                   Peer
}

type pipeClient struct {
	*pipe
	saidGoodbye bool
}

func (c *pipeClient) Send(m *messages.ClientMessage) error {
	select {
	case <-c.clientDone:
		return errEnded()
	case <-c.serverDone:
		return errEnded()
	default:
	}
	select {
	case c.up <- m:
		return nil
	case <-c.clientDone:
		return errEnded()
	case <-c.serverDone:
		return errEnded()
	}
}

func (c *pipeClient) Recv() (*messages.ServerMessage, error) {
	select {
	case m := <-c.down:
		return m, nil
	default:
	}
	select {
	case m := <-c.down:
		return m, nil
	case <-c.clientDone:
		return nil, errClosedHere()
	case <-c.serverDone:
	}
	// What was queued before the end still counts.
	select {
	case m := <-c.down:
		return m, nil
	default:
	}
	select {
	case <-c.clientDone:
		return nil, errClosedHere()
	default:
	}
	if c.reason != nil && !c.saidGoodbye {
		c.saidGoodbye = true
		return goodbye(c.reason), nil
	}
	return nil, endOf(c.reason)
}

func (c *pipeClient) Close() error {
	c.clientOnce.Do(func() { close(c.clientDone) })
	return nil
}

type pipeServer struct{ *pipe }

func (s *pipeServer) Send(m *messages.ServerMessage) error {
	select {
	case <-s.clientDone:
		return errEnded()
	case <-s.serverDone:
		return errEnded()
	default:
	}
	select {
	case s.down <- m:
		return nil
	case <-s.clientDone:
		return errEnded()
	case <-s.serverDone:
		return errEnded()
	}
}

func (s *pipeServer) Recv() (*messages.ClientMessage, error) {
	select {
	case m := <-s.up:
		return m, nil
	default:
	}
	select {
	case m := <-s.up:
		return m, nil
	case <-s.serverDone:
		return nil, errClosedHere()
	case <-s.clientDone:
	}
	select {
	case m := <-s.up:
		return m, nil
	default:
		return nil, io.EOF
	}
}

func (s *pipeServer) Close(reason *messages.ErrorDetail) {
	s.serverOnce.Do(func() {
		s.reason = reason
		close(s.serverDone)
	})
}

func (s *pipeServer) Peer() Peer { return s.peer }
