package remoting

import (
	"io"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// bridge is a session of a remote actor: a transport.ServerStream whose messages
// are that actor's. It is a process of the remote protocol and no actor, because
// an actor's mailbox has no bound.
type bridge struct {
	endpoint *endpoint
	id       string
	peer     transport.Peer
	client   string // id of the actor at the peer
	request  uint32
	link     *link // set by addRoute
	inbox    *queue[*messages.ClientMessage]

	once    sync.Once
	cause   error         // what Recv says at the end; set before closing is closed
	closing chan struct{} // closed by Close and by lost
}

func newBridge(e *endpoint, p *peerState, a *admitted) *bridge {
	return &bridge{
		endpoint: e,
		id:       e.newRouteID(),
		peer:     transport.Peer{Kind: transport.KindRemote, Address: p.address, Name: p.name},
		client:   a.sender,
		request:  a.requestID,
		inbox:    newQueue[*messages.ClientMessage](inboxMessagesMax, inboxBytesMax),
		closing:  make(chan struct{}),
	}
}

func (b *bridge) Peer() transport.Peer { return b.peer }

func (b *bridge) Send(m *messages.ServerMessage) error {
	select {
	case <-b.closing:
		return errSessionEnded()
	default:
	}
	inner := unwrapServer(m)
	if inner == nil {
		return messages.InvalidField("message", "empty")
	}
	return b.link.send(b.outgoing(inner), b.closing)
}

func (b *bridge) outgoing(m proto.Message) outgoing {
	return outgoing{message: m, target: b.client, requestID: b.request, sender: b.id}
}

func (b *bridge) Recv() (*messages.ClientMessage, error) {
	m, ok := b.inbox.pop(nil)
	if !ok {
		return nil, b.cause
	}
	return m, nil
}

func (b *bridge) Close(reason *messages.ErrorDetail) {
	b.end(messages.UnknownOutcome(messages.Code_CODE_CANCELLED, "the session was closed on this side"), func() {
		b.inbox.drop()
		// A peer that does not even read this hears it when it speaks to the session.
		if !b.link.trySend(b.outgoing(&messages.Goodbye{Reason: reason})) {
			b.endpoint.counters.add(DroppedFull)
		}
	})
}

// end lets Recv say cause once the inbox is empty.
func (b *bridge) end(cause error, last func()) {
	b.once.Do(func() {
		b.cause = cause
		close(b.closing)
		b.inbox.end()
		last()
		b.endpoint.removeRoute(b.id, b)
	})
}

func (b *bridge) receive(m proto.Message, bytes int, _ string, stop <-chan struct{}) {
	b.inbox.push(wrapClient(m), bytes, stop)
	if _, ok := m.(*messages.Goodbye); ok {
		b.end(io.EOF, func() {})
	}
}

func (b *bridge) lost(reason *messages.ErrorDetail) {
	b.end(messages.ErrorFrom(reason), func() {})
}

func errSessionEnded() error {
	return messages.NewError(messages.Code_CODE_UNAVAILABLE, "the session has ended")
}
