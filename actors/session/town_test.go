package session

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	watchhub "github.com/concord-kv/concord/actors/watch"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// town is a node without a log: real sessions, the real hub and the real state
// machine, and one actor that is replica and apply at once.
type town struct {
	t       testing.TB
	system  *actor.ActorSystem
	gateway *Gateway
	hub     *actor.PID
	store   *actor.PID
	watches atomic.Int64
	poison  atomic.Bool // Now panics
	nowMs   int64
}

// oneStore applies each Propose at once.
type oneStore struct {
	machine *state.Machine
	index   uint64
	hub     *actor.PID
	held    []func() // answers that are held back
	hold    bool
}

type holdAnswers bool

func (s *oneStore) apply(commands []*messages.Command) []*messages.Result {
	s.index++
	return s.machine.Apply(s.index, &messages.Entry{Epoch: 1, ReplicaId: 1, Nonce: 9, Commands: commands})
}

func (s *oneStore) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.Propose:
		results := s.apply(m.Commands)
		ctx.Send(s.hub, &state.Committed{Effects: s.machine.TakeEffects(), Applied: s.index})
		to, answer := ctx.Sender(), &messages.Proposed{RequestId: m.RequestId, Results: results}
		if s.hold {
			s.held = append(s.held, func() { ctx.Send(to, answer) })
			return
		}
		ctx.Send(to, answer)
	case *messages.ReadBarrier:
		ctx.Send(ctx.Sender(), &messages.BarrierReached{RequestId: m.RequestId})
	case *state.GetView:
		ctx.Send(ctx.Sender(), &state.GotView{RequestID: m.RequestID, View: s.machine.View()})
	case holdAnswers:
		s.hold = bool(m)
		for _, answer := range s.held {
			answer()
		}
		s.held = nil
	}
}

func (n *town) Facts() Facts {
	return Facts{Ready: true, ClusterID: []byte("c"), Incarnation: 1, ReplicaID: 1, LeaderID: 1, Watches: uint64(n.watches.Load())}
}

func (n *town) Auth() *auth.Table { return nil }
func (n *town) Now() state.Now {
	if n.poison.Load() {
		panic("poison")
	}
	return state.Now{}
}

func (n *town) Watches(live int)         { n.watches.Store(int64(live)) }
func (n *town) Delivered(int, int)       {}
func (n *town) WatchEnded(messages.Code) {}
func (n *town) Backlog(int, int, uint64) {}

func newTown(t testing.TB, limits Limits, watchLimits watchhub.Limits) *town {
	n := &town{t: t, nowMs: 1_000}
	silent := slog.New(slog.NewTextHandler(io.Discard, nil))
	n.system = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return silent }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond), // its goroutine lives that long
	)
	store := &oneStore{machine: state.New(), hub: n.system.NewLocalPID("watch")}
	store.apply([]*messages.Command{{Op: &messages.Command_Bootstrap{Bootstrap: &messages.Bootstrap{ClusterId: []byte("c"), Incarnation: 1, ApplyVersion: 1}}}})
	store.apply([]*messages.Command{{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{ReplicaId: 1, Nonce: 9}}}})
	n.hub = n.spawn("watch", watchhub.Props(watchhub.Config{Apply: n.system.NewLocalPID("store"), Limits: watchLimits, Telemetry: n}))
	n.store = n.spawn("store", actor.PropsFromProducer(func() actor.Actor { return store }))
	gateway, err := NewGateway(n.system, Config{Replica: n.store, Apply: n.store, Watch: n.hub, Node: n, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	n.gateway = gateway
	t.Cleanup(n.stop)
	n.tick(0)
	return n
}

func (n *town) spawn(name string, p *actor.Props) *actor.PID {
	pid, err := n.system.Root.SpawnNamed(p, name)
	if err != nil {
		n.t.Fatal(err)
	}
	return pid
}

func (n *town) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = n.gateway.Close(ctx) // too late for some, who are cut off
	for _, p := range []*actor.PID{n.hub, n.store} {
		if err := n.system.Root.StopFuture(p).Wait(); err != nil {
			n.t.Errorf("stopping %v: %v", p, err)
		}
	}
	n.system.Shutdown()
}

func (n *town) tick(ms int64) {
	for {
		step := min(ms, tickMs)
		n.nowMs += step
		ms -= step
		for _, p := range []*actor.PID{n.gateway.PID(), n.hub} {
			n.system.Root.Send(p, &messages.ClockTick{MonotonicMs: n.nowMs})
		}
		if ms <= 0 {
			return
		}
	}
}

// guest is a client with no more wit than the protocol.
type guest struct {
	t      testing.TB
	stream transport.ClientStream
	next   uint64
}

func (n *town) visit() *guest {
	g := n.approach()
	g.send(hello(&messages.ClientHello{Protocol: 1, ClientEpoch: 42}))
	if m := g.recv(); m.GetHello() == nil {
		n.t.Fatalf("no hello: %v", m)
	}
	return g
}

func (n *town) approach() *guest {
	s, err := transport.NewInProcess(n.gateway.Serve).Dial(context.Background(), "town")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { s.Close() })
	return &guest{t: n.t, stream: s}
}

func (g *guest) send(m *messages.ClientMessage) {
	g.t.Helper()
	if err := g.stream.Send(m); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guest) ask(ops ...*messages.Operation) uint64 {
	g.t.Helper()
	first := g.next
	g.next += uint64(len(ops))
	g.send(frame(42, first, ops...))
	return first
}

// recv returns the next message that is not a heartbeat.
func (g *guest) recv() *messages.ServerMessage {
	g.t.Helper()
	m, err := g.try()
	if err != nil {
		g.t.Fatal(err)
	}
	return m
}

func (g *guest) try() (*messages.ServerMessage, error) {
	type received struct {
		m   *messages.ServerMessage
		err error
	}
	for {
		c := make(chan received, 1)
		go func() {
			m, err := g.stream.Recv()
			c <- received{m, err}
		}()
		select {
		case r := <-c:
			if r.err == nil && r.m.GetHeartbeat() != nil {
				continue
			}
			return r.m, r.err
		case <-time.After(20 * time.Second):
			g.stream.Close()
			<-c
			return nil, errors.New("nothing came for 20 s")
		}
	}
}

// answers waits for this many answers, and skips what else comes.
func (g *guest) answers(n int) map[uint64]*messages.Reply {
	g.t.Helper()
	out := make(map[uint64]*messages.Reply)
	for len(out) < n {
		for _, r := range g.recv().GetReplies().GetReplies() {
			out[r.Call] = r
		}
	}
	return out
}

// until receives until ok, or the end of the stream, whose reason it returns.
func (g *guest) until(ok func(*messages.ServerMessage) bool) *messages.ErrorDetail {
	g.t.Helper()
	for {
		m, err := g.try()
		if err != nil {
			return messages.DetailOf(err)
		}
		if ok(m) {
			return nil
		}
	}
}

// eventually waits for what other goroutines are about to do.
func (n *town) eventually(what string, ok func() bool) {
	n.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			n.t.Fatalf("never: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func terminatedOf(id string) *actor.Terminated {
	return &actor.Terminated{Who: actor.NewPID("nonhost", id)}
}
