package remoting

import (
	"context"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// Endpoint is a service's side: its actors, or a transport.Dialer, talk to nodes
// through it.
type Endpoint struct {
	endpoint *endpoint
	system   *actor.ActorSystem

	mu       sync.Mutex
	sessions map[sessionAddress]*actorRoute
}

type sessionAddress struct{ node, id string }

// Join gives an actor system a remote address, so that its actors reach sessions
// of nodes and hear from them. It must be called before actors are spawned, and
// once for a system; the system must use no other remoting. system may be nil when
// only Dialer is used. Close ends it.
func Join(system *actor.ActorSystem, cfg Config) (*Endpoint, error) {
	cfg, err := cfg.withDefaults(clientReceiveBytes)
	if err != nil {
		return nil, err
	}
	e, lis, err := newEndpoint(cfg, toClient, transport.ClientMessageBytesMax)
	if err != nil {
		return nil, err
	}
	c := &Endpoint{endpoint: e, system: system, sessions: make(map[sessionAddress]*actorRoute)}
	if system != nil {
		system.ProcessRegistry.Address = e.address
		system.ProcessRegistry.RegisterAddressResolver(c.resolve)
	}
	e.serve(lis)
	return c, nil
}

// Address returns the address that nodes dial.
func (c *Endpoint) Address() string { return c.endpoint.address }

// Stats returns the counters.
func (c *Endpoint) Stats() Stats { return c.endpoint.stats() }

// Close says Goodbye for every session and waits until nothing runs any more.
func (c *Endpoint) Close() {
	c.endpoint.close(func(r route) {
		switch r := r.(type) {
		case *clientStream:
			r.Close()
		case *actorRoute:
			r.leave()
		}
	})
}

// Dialer returns a dialer of nodes' remoting addresses. Its streams share one
// connection in each direction with everything else between the two processes:
// one that is not read holds up the others.
func (c *Endpoint) Dialer() transport.Dialer { return dialer{c.endpoint} }

type dialer struct{ endpoint *endpoint }

func (d dialer) Dial(ctx context.Context, node string) (transport.ClientStream, error) {
	e := d.endpoint
	s := &clientStream{
		endpoint: e,
		id:       e.newRouteID(),
		inbox:    newQueue[*messages.ServerMessage](inboxMessagesMax, inboxBytesMax),
		reached:  make(chan struct{}),
		opened:   make(chan struct{}),
		closing:  make(chan struct{}),
	}
	if node == e.address {
		return nil, messages.InvalidField("endpoint", "%s is this process", node)
	}
	if err := e.addRoute(s.id, node, s, nil, &s.link, maxInt, maxInt); err != nil {
		return nil, dialError(messages.Code_CODE_UNAVAILABLE, node, err)
	}
	// The answer shows that the node reaches us, too.
	if s.link.send(outgoing{message: &messages.Heartbeat{}, target: gatewayID, sender: s.id}, ctx.Done()) == nil {
		select {
		case <-s.reached:
			return s, nil
		case <-s.closing:
		case <-ctx.Done():
		}
	}
	s.end(nil)
	if ctx.Err() != nil {
		code := messages.Code_CODE_CANCELLED
		if context.Cause(ctx) == context.DeadlineExceeded {
			code = messages.Code_CODE_TIMEOUT
		}
		return nil, dialError(code, node, ctx.Err())
	}
	return nil, dialError(messages.Code_CODE_UNAVAILABLE, node, messages.ErrorFrom(s.reason))
}

const maxInt = int(^uint(0) >> 1)

func dialError(code messages.Code, node string, err error) error {
	e := messages.NewError(code, "dial %s", node)
	e.Err = err
	return e
}

// clientStream is a transport.ClientStream over the remote protocol.
type clientStream struct {
	endpoint *endpoint
	id       string
	link     *link
	inbox    *queue[*messages.ServerMessage]

	reachedOnce, openedOnce sync.Once
	reached                 chan struct{} // the node answered
	opened                  chan struct{} // session is known
	session                 string        // set before opened is closed

	once    sync.Once
	reason  *messages.ErrorDetail // set before closing is closed
	closed  bool                  // by Close; likewise
	closing chan struct{}
}

// Send sends a ClientHello to the node's gateway and everything else to the
// session, which it waits for.
func (s *clientStream) Send(m *messages.ClientMessage) error {
	inner := unwrapClient(m)
	if inner == nil {
		return messages.InvalidField("message", "empty")
	}
	target := gatewayID
	if _, ok := inner.(*messages.ClientHello); !ok {
		select {
		case <-s.opened:
			target = s.session
		case <-s.closing:
			return errSessionEnded()
		}
	}
	select {
	case <-s.closing:
		return errSessionEnded()
	default:
	}
	return s.link.send(outgoing{message: inner, target: target, sender: s.id}, s.closing)
}

func (s *clientStream) Recv() (*messages.ServerMessage, error) {
	m, ok := s.inbox.pop(nil)
	switch {
	case ok:
		return m, nil
	case s.closed:
		return nil, messages.UnknownOutcome(messages.Code_CODE_CANCELLED, "the connection was closed on this side")
	case s.reason == nil:
		return nil, messages.ErrorFrom(lost("the session has ended"))
	default:
		return nil, messages.ErrorFrom(s.reason)
	}
}

func (s *clientStream) Close() error {
	s.once.Do(func() {
		s.closed = true
		close(s.closing)
		s.inbox.end()
		s.inbox.drop()
		select {
		case <-s.opened:
			s.link.trySend(outgoing{message: &messages.Goodbye{}, target: s.session, sender: s.id})
		default:
		}
		s.endpoint.removeRoute(s.id, s)
	})
	return nil
}

// end lets Recv say reason once what arrived before has been taken.
func (s *clientStream) end(reason *messages.ErrorDetail) {
	s.once.Do(func() {
		s.reason = reason
		close(s.closing)
		s.inbox.end()
		s.endpoint.removeRoute(s.id, s)
	})
}

func (s *clientStream) receive(m proto.Message, bytes int, sender string, stop <-chan struct{}) {
	switch m := m.(type) {
	case *messages.Heartbeat:
		if sender == gatewayID {
			s.reachedOnce.Do(func() { close(s.reached) })
			return
		}
	case *messages.ServerHello:
		s.openedOnce.Do(func() {
			s.session = sender
			close(s.opened)
		})
	case *messages.Goodbye:
		if m.Reason != nil {
			s.inbox.push(wrapServer(m), bytes, stop)
		}
		s.end(m.Reason)
		return
	}
	s.inbox.push(wrapServer(m), bytes, stop)
}

func (s *clientStream) lost(reason *messages.ErrorDetail) { s.end(reason) }
