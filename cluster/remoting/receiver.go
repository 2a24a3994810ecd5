package remoting

import (
	"errors"
	"io"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// receiver is the remoting service behind the firewall. Unary methods are not
// implemented, and the firewall denies them besides.
type receiver struct {
	remote.UnimplementedRemotingServer
	endpoint *endpoint
}

// Receive serves one incoming stream. The stream is always a guard's.
func (r receiver) Receive(stream grpc.BidiStreamingServer[remote.RemoteMessage, remote.RemoteMessage]) error {
	g := stream.(*grpc.GenericServerStream[remote.RemoteMessage, remote.RemoteMessage]).ServerStream.(*guard)
	return r.endpoint.receive(g)
}

func (e *endpoint) receive(g *guard) error {
	m := new(remote.RemoteMessage)
	if err := g.RecvMsg(m); err != nil {
		return ended(err)
	}
	p, err := e.streamOpened(g)
	if err != nil {
		return err
	}
	defer e.streamClosed(p, g)
	err = g.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectResponse{
		ConnectResponse: &remote.ConnectResponse{MemberId: e.member},
	}})
	if err != nil {
		return err
	}
	stop := g.Context().Done()
	for {
		if err := g.RecvMsg(m); err != nil {
			return ended(err)
		}
		for i := range g.batch {
			if err := e.deliver(g, &g.batch[i], p, stop); err != nil {
				return err
			}
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// deliver decodes one admitted message and hands it on.
func (e *endpoint) deliver(g *guard, a *admitted, p *peerState, stop <-chan struct{}) error {
	if a.kind == kindDeadLetter {
		e.counters.add(DroppedDeadLetter)
		return nil
	}
	m := newMessage(a.kind)
	if err := proto.Unmarshal(a.data, m); err != nil {
		return refusal{RefusedPayload}
	}
	if e.gateway != nil && a.target == gatewayID {
		e.gateway(g, a, m, len(a.data), p)
		return nil
	}
	r := e.routeFor(g, a, p)
	if r == nil {
		e.counters.add(DroppedStale)
		e.answerStale(a, p)
		return nil
	}
	r.receive(m, len(a.data), a.sender, stop)
	return nil
}

// routeFor returns the route of a message, or nil if it has ended or another stream
// feeds it.
func (e *endpoint) routeFor(g *guard, a *admitted, p *peerState) route {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.routes[a.target]
	if a.stale || r == nil || r.peer != p.address {
		return nil
	}
	if r.stream == nil {
		r.stream = g
	}
	if r.stream != g {
		return nil
	}
	return r.route
}

// answerStale tells whoever still talks to something that has ended. A Goodbye is
// never answered: two peers could go on for ever.
func (e *endpoint) answerStale(a *admitted, p *peerState) {
	if a.sender == "" || a.kind == kindGoodbye {
		return
	}
	e.answer(p.address, outgoing{
		message: &messages.Goodbye{Reason: lost("the session has ended")},
		target:  a.sender, requestID: a.requestID, sender: a.target,
	})
}

// answer sends a message that no session waits for, unless the peer does not read.
func (e *endpoint) answer(address string, o outgoing) {
	for range 2 { // a link that just ended is not used again
		e.mu.Lock()
		var l *link
		switch p := e.peers[address]; {
		case e.closed || p == nil:
		case e.gateway == nil:
			l = p.link // a client dials whom it asked, and nobody else
		default:
			l = e.peerOf(address).link
		}
		e.mu.Unlock()
		if l == nil {
			return
		}
		taken, ended := l.queue.tryPush(o, proto.Size(o.message))
		if taken {
			return
		}
		if !ended {
			break
		}
	}
	e.counters.add(DroppedFull)
}
