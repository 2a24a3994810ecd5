package remoting

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// letter is what an actor received, and from whom.
type letter struct {
	message any
	sender  *actor.PID
}

// talker is an actor that sends what it is told and passes on what it receives.
type talker struct {
	inbox chan letter
}

type tell struct {
	pid *actor.PID
	m   proto.Message
}

func (a *talker) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case tell:
		ctx.Request(m.pid, m.m)
	case proto.Message:
		if _, ok := m.(actor.SystemMessage); !ok {
			a.inbox <- letter{m, ctx.Sender()}
		}
	}
}

func spawnTalker(system *actor.ActorSystem) (*actor.PID, *talker) {
	a := &talker{inbox: make(chan letter, 10_000)}
	return system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return a })), a
}

func (a *talker) next(t *testing.T) letter {
	t.Helper()
	return await(t, a.inbox, "message for the actor")
}

func TestActorAndSession(t *testing.T) {
	w := newWorld(t)
	ends := make(chan error, 1)
	node := w.node(func(s transport.ServerStream) {
		for {
			m, err := s.Recv()
			if err != nil {
				ends <- err
				return
			}
			if m.GetGoodbye() == nil {
				s.Send(echoOf(m))
			}
		}
	}, nil)
	system := newSystem()
	c := w.client(system)
	pid, a := spawnTalker(system)
	say := func(to *actor.PID, m proto.Message) { system.Root.Send(pid, tell{to, m}) }

	say(Gateway(node.Address()), someHello())
	l := a.next(t)
	if l.message.(*messages.ServerHello).Version != "x" || l.sender.Address != node.Address() {
		t.Fatal(l)
	}
	session := l.sender
	const n = 2000
	for i := uint64(1); i <= n; i++ {
		say(session, frame(i, 100).GetFrame())
	}
	seen := uint64(0)
	for range n { // all of them answered, in order; those that found no room were refused
		r := a.next(t).message.(*messages.Replies).Replies[0]
		if r.GetError() == nil {
			if r.Call <= seen {
				t.Fatalf("call %d after %d", r.Call, seen)
			}
			seen = r.Call
		} else if r.GetError().Code != messages.Code_CODE_OVERLOADED || r.GetError().Outcome != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Fatal(r)
		}
	}
	say(session, &messages.Goodbye{})
	await(t, ends, "end of the session")
	if s := node.Stats(); s.Sessions != 0 || len(s.Refused) != 0 {
		t.Fatal(s)
	}
	// The actor goes on: a new session, and this time the node goes away.
	say(Gateway(node.Address()), someHello())
	if l = a.next(t); l.message.(*messages.ServerHello) == nil || l.sender.Id == session.Id {
		t.Fatal(l)
	}
	node.Close()
	if g := a.next(t).message.(*messages.Goodbye); g.Reason.GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatal(g)
	}
	if s := c.Stats(); s.Sessions != 0 {
		t.Fatal(s)
	}
	say(Gateway(node.Address()), someHello())
	if g := a.next(t).message.(*messages.Goodbye); g.Reason.GetCode() != messages.Code_CODE_UNAVAILABLE {
		t.Fatal(g)
	}
}

func TestASecondHelloEndsTheFirstSession(t *testing.T) {
	w := newWorld(t)
	ends := make(chan struct{}, 2)
	node := w.node(func(s transport.ServerStream) {
		echo(s)
		ends <- struct{}{}
	}, nil)
	system := newSystem()
	w.client(system)
	pid, a := spawnTalker(system)
	system.Root.Send(pid, tell{Gateway(node.Address()), someHello()})
	first := a.next(t).sender
	system.Root.Send(pid, tell{Gateway(node.Address()), someHello()})
	second := a.next(t).sender
	if first.Id == second.Id {
		t.Fatal("the same session")
	}
	await(t, ends, "end of the first session")
	system.Root.Send(pid, tell{second, frame(1, 1).GetFrame()})
	if r := a.next(t).message.(*messages.Replies).Replies[0]; r.Call != 1 {
		t.Fatal(r)
	}
}

func TestAStoppedActorLeavesItsSession(t *testing.T) {
	w := newWorld(t)
	ends, beats := make(chan error, 1), make(chan struct{})
	node := w.node(func(s transport.ServerStream) {
		s.Recv()
		s.Send(wrapServer(&messages.ServerHello{}))
		<-beats
		s.Send(wrapServer(&messages.Heartbeat{}))
		for {
			if _, err := s.Recv(); err != nil {
				ends <- err
				return
			}
		}
	}, nil)
	system := newSystem()
	w.client(system)
	pid, a := spawnTalker(system)
	system.Root.Send(pid, tell{Gateway(node.Address()), someHello()})
	a.next(t)
	if err := system.Root.StopFuture(pid).Wait(); err != nil {
		t.Fatal(err)
	}
	close(beats)
	await(t, ends, "end of the session")
	if r := node.Stats().Refused; len(r) != 0 {
		t.Fatal(r)
	}
}

// What an actor sends to anything but its session goes nowhere.
func TestNothingElseLeavesTheService(t *testing.T) {
	w := newWorld(t)
	node := w.node(echo, nil)
	system := newSystem()
	c := w.client(system)
	dead := make(chan *actor.DeadLetterEvent, 10)
	system.EventStream.Subscribe(func(e any) {
		if d, ok := e.(*actor.DeadLetterEvent); ok {
			dead <- d
		}
	})
	pid, _ := spawnTalker(system)
	for _, m := range []tell{
		{actor.NewPID(node.Address(), "activator"), someHello()},
		{actor.NewPID(node.Address(), sessionPrefix+"x"), frame(1, 1).GetFrame()},
		{Gateway(node.Address()), &messages.Replies{}},
		{Gateway(c.Address() + "0"), &messages.Frame{}},
	} {
		system.Root.Send(pid, m)
		if d := await(t, dead, "dead letter"); d.PID.Id != m.pid.Id || d.Sender != nil {
			t.Fatal(d)
		}
	}
	if s := c.Stats(); s.Peers != 0 {
		t.Fatal(s)
	}
}

// A session that does not read makes its peer wait, and holds no more than its
// limits; what finds no room is refused, call by call.
func TestASessionThatDoesNotRead(t *testing.T) {
	w := newWorld(t)
	read := make(chan struct{})
	node := w.node(func(s transport.ServerStream) {
		s.Recv()
		s.Send(wrapServer(&messages.ServerHello{Version: "app"}))
		<-read
		echo(s)
	}, nil)
	system := newSystem()
	c := w.client(system)
	pid, a := spawnTalker(system)
	system.Root.Send(pid, tell{Gateway(node.Address()), someHello()})
	session := a.next(t).sender
	const size = 100 << 10
	// Queues of both sides, two windows, one batch, and what gRPC holds in between.
	const room = (linkBytesMax + inboxBytesMax + 2<<20 + 2*batchBytesMax) / size
	sent := 0
	for c.Stats().Refused["full"] == 0 {
		if sent++; sent > room {
			t.Fatalf("%d frames were taken", sent)
		}
		system.Root.RequestWithCustomSender(session, frame(uint64(sent), size).GetFrame(), pid)
	}
	if r := a.next(t).message.(*messages.Replies).Replies[0]; r.Call != uint64(sent) || r.GetError().GetCode() != messages.Code_CODE_OVERLOADED {
		t.Fatal(r)
	}
	close(read)
	for range sent - 1 { // everything else is answered
		if _, ok := a.next(t).message.(*messages.Replies); !ok {
			t.Fatal("the session ended")
		}
	}
}
