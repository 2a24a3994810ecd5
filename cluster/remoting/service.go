package remoting

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// actorRoute is a session that an actor of the service opened itself.
type actorRoute struct {
	owner   *Endpoint
	node    string
	actorID string
	link    *link

	mu      sync.Mutex
	session string // empty until ServerHello
	once    sync.Once
}

// resolve gives a process for every PID that is not of this system: it is asked
// for each PID once.
func (c *Endpoint) resolve(pid *actor.PID) (actor.Process, bool) {
	return outside{c}, true
}

// outside is every actor that is not of this system. Sessions and gateways of
// nodes are reached; a message for anything else is a dead letter.
type outside struct{ owner *Endpoint }

func (o outside) SendUserMessage(pid *actor.PID, message any) {
	_, m, sender := actor.UnwrapEnvelope(message)
	if !o.owner.send(pid, m, sender) {
		o.dead(pid, m)
	}
}

// SendSystemMessage does not reach over: a session says Goodbye when it ends, and
// nobody stops another's session.
func (o outside) SendSystemMessage(pid *actor.PID, message any) { o.dead(pid, message) }

func (o outside) Stop(pid *actor.PID) {}

// dead publishes without the sender: the library would answer it with a message.
func (o outside) dead(pid *actor.PID, message any) {
	o.owner.system.EventStream.Publish(&actor.DeadLetterEvent{PID: pid, Message: message})
}

// send passes an actor's message on. It reports false for one that cannot go
// anywhere; one that has to wait is refused by an answer.
func (c *Endpoint) send(pid *actor.PID, message any, sender *actor.PID) bool {
	m, ok := message.(proto.Message)
	if !ok || wrapClient(m) == nil {
		return false
	}
	if hello, ok := m.(*messages.ClientHello); ok {
		return pid.Id == gatewayID && c.open(pid.Address, hello, sender)
	}
	c.mu.Lock()
	r := c.sessions[sessionAddress{pid.Address, pid.Id}]
	c.mu.Unlock()
	if r == nil {
		return false
	}
	size := proto.Size(m)
	if err := c.endpoint.tooLarge(size); err != nil {
		r.refuse(m, messages.DetailOf(err))
		return true
	}
	taken, _ := r.link.queue.tryPush(outgoing{message: m, target: pid.Id, sender: r.actorID}, size)
	if !taken {
		r.refuse(m, errFull())
	} else if _, ok := m.(*messages.Goodbye); ok {
		r.forget()
	}
	return true
}

func errFull() *messages.ErrorDetail {
	return messages.NewError(messages.Code_CODE_OVERLOADED, "too much is waiting for the node").WithLimit(linkBytesMax).Detail
}

// open begins a session for the actor that says hello.
func (c *Endpoint) open(node string, hello *messages.ClientHello, sender *actor.PID) bool {
	if sender == nil || len(sender.Id) > idBytesMax || node == c.endpoint.address {
		return false
	}
	c.endpoint.mu.Lock()
	old := c.endpoint.routes[sender.Id]
	c.endpoint.mu.Unlock()
	if old != nil {
		old.route.(*actorRoute).leave() // one session an actor: a new hello is a new beginning
	}
	r := &actorRoute{owner: c, node: node, actorID: sender.Id}
	if err := c.endpoint.addRoute(sender.Id, node, r, nil, &r.link, maxInt, maxInt); err != nil {
		r.tell(&messages.Goodbye{Reason: messages.DetailOf(err)}, gatewayID)
		return true
	}
	if !r.link.trySend(outgoing{message: hello, target: gatewayID, sender: sender.Id}) {
		r.refuse(hello, errFull())
	}
	return true
}

// refuse answers for the node what does not go out: the calls of a frame one by
// one; what has no answer of its own ends the session.
func (r *actorRoute) refuse(m proto.Message, why *messages.ErrorDetail) {
	r.owner.endpoint.counters.add(DroppedFull)
	f, ok := m.(*messages.Frame)
	if !ok {
		r.lost(why)
		return
	}
	replies := &messages.Replies{ClientEpoch: f.ClientEpoch, Replies: make([]*messages.Reply, len(f.Operations))}
	for i := range f.Operations {
		replies.Replies[i] = &messages.Reply{Call: f.FirstCall + uint64(i), Reply: &messages.Reply_Error{Error: why}}
	}
	r.tell(replies, r.sessionID())
}

func (r *actorRoute) receive(m proto.Message, _ int, sender string, _ <-chan struct{}) {
	switch m := m.(type) {
	case *messages.ServerHello:
		r.begin(sender)
	case *messages.Goodbye:
		if sender == r.sessionID() || sender == gatewayID {
			r.once.Do(func() {
				r.forget()
				r.tell(m, sender)
			})
		}
		return
	default:
		if sender != r.sessionID() {
			return // from the actor's session before this one
		}
	}
	if !r.tell(m, sender) {
		r.leave() // the actor is gone without a Goodbye
	}
}

func (r *actorRoute) begin(session string) {
	r.mu.Lock()
	before := r.session
	r.session = session
	r.mu.Unlock()
	r.owner.mu.Lock()
	delete(r.owner.sessions, sessionAddress{r.node, before})
	r.owner.sessions[sessionAddress{r.node, session}] = r
	r.owner.mu.Unlock()
	if before != "" && before != session {
		r.link.trySend(outgoing{message: &messages.Goodbye{}, target: before, sender: r.actorID})
	}
}

func (r *actorRoute) lost(reason *messages.ErrorDetail) {
	r.once.Do(func() {
		r.forget()
		r.tell(&messages.Goodbye{Reason: reason}, r.sessionID())
	})
}

// leave ends the session for an actor that did not.
func (r *actorRoute) leave() {
	r.once.Do(func() {
		if id := r.sessionID(); id != "" {
			r.link.trySend(outgoing{message: &messages.Goodbye{}, target: id, sender: r.actorID})
		}
		r.forget()
	})
}

func (r *actorRoute) forget() {
	r.owner.endpoint.removeRoute(r.actorID, r)
	r.owner.mu.Lock()
	delete(r.owner.sessions, sessionAddress{r.node, r.sessionID()})
	r.owner.mu.Unlock()
}

func (r *actorRoute) sessionID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}

// tell sends m to the actor, as from the session. It reports whether the actor
// lives: a dead letter would be answered over the wire.
func (r *actorRoute) tell(m proto.Message, session string) bool {
	system := r.owner.system
	if _, ok := system.ProcessRegistry.GetLocal(r.actorID); !ok {
		return false
	}
	system.Root.RequestWithCustomSender(system.NewLocalPID(r.actorID), m, actor.NewPID(r.node, session))
	return true
}
