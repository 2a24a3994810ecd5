package remoting

import (
	"runtime/debug"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// Listener is the node's side: services of other processes open sessions at it.
type Listener struct {
	endpoint *endpoint
	handler  transport.Handler
}

// Listen serves h to peers with a certificate of cfg.Roots. Close ends it.
func Listen(cfg Config, h transport.Handler) (*Listener, error) {
	cfg, err := cfg.withDefaults(nodeReceiveBytes)
	if err != nil {
		return nil, err
	}
	e, lis, err := newEndpoint(cfg, toNode, transport.ServerMessageBytesMax)
	if err != nil {
		return nil, err
	}
	l := &Listener{endpoint: e, handler: h}
	e.gateway = l.gateway
	e.serve(lis)
	return l, nil
}

// Address returns the address that services name in Gateway.
func (l *Listener) Address() string { return l.endpoint.address }

// Stats returns the counters.
func (l *Listener) Stats() Stats { return l.endpoint.stats() }

// Close ends every session with node_stopping and waits until its handlers have
// returned.
func (l *Listener) Close() {
	l.endpoint.close(func(r route) {
		r.(*bridge).Close(messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node is stopping").Detail)
	})
}

// gateway answers what is sent to Gateway: a heartbeat, by which a client finds out
// that both directions work, and the hello that opens a session.
func (l *Listener) gateway(g *guard, a *admitted, m proto.Message, bytes int, p *peerState) {
	e := l.endpoint
	hello, ok := m.(*messages.ClientHello)
	if !ok {
		e.answer(p.address, outgoing{message: m, target: a.sender, requestID: a.requestID, sender: gatewayID})
		return
	}
	b := newBridge(e, p, a)
	b.inbox.tryPush(wrapClient(hello), bytes)
	if err := e.addRoute(b.id, p.address, b, g, &b.link, e.cfg.SessionsMax, e.cfg.SessionsPerPeerMax); err != nil {
		e.counters.add(DroppedSession)
		e.answer(p.address, outgoing{
			message: &messages.Goodbye{Reason: messages.DetailOf(err)},
			target:  a.sender, requestID: a.requestID, sender: gatewayID,
		})
		return
	}
	e.background.Add(1)
	go l.handle(b)
}

// handle runs the handler for one session; a panic ends this session alone.
func (l *Listener) handle(b *bridge) {
	defer l.endpoint.background.Done()
	defer b.Close(nil)
	defer func() {
		if p := recover(); p != nil {
			l.endpoint.counters.add(RefusedPanic)
			l.endpoint.cfg.Logger.Error("session handler panicked", "peer", b.peer.Address, "panic", p, "stack", string(debug.Stack()))
			b.Close(messages.UnknownOutcome(messages.Code_CODE_INTERNAL, "the session failed").Detail)
		}
	}()
	l.handler(b)
}
