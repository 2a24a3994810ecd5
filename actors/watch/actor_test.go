package watch

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is the hub's actor with a test around it: everything it sends arrives at
// one inbox.
type scene struct {
	t      *testing.T
	system *actor.ActorSystem
	hub    *actor.PID
	inbox  chan any
	me     *actor.PID
	replica
}

func newScene(t *testing.T) *scene {
	silent := slog.New(slog.NewTextHandler(io.Discard, nil))
	s := &scene{t: t, inbox: make(chan any, 1_000), system: actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return silent }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond),
	)}
	s.replica = *newReplica(newWorld(t, Limits{}))
	me := s.system.NewLocalPID("test")
	// The hub comes first: it must not mind that nobody is there yet.
	s.hub = s.spawn("watch", Props(Config{Apply: me, Consumers: me}))
	s.system.Root.Send(s.hub, &messages.ClockTick{MonotonicMs: 1_000})
	s.me = s.spawn("test", actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *state.GetView, *protocol.Deliver, *protocol.Consumers:
			s.inbox <- m
		}
	}))
	t.Cleanup(func() {
		for _, p := range []*actor.PID{s.hub, s.me} {
			if err := s.system.Root.StopFuture(p).Wait(); err != nil {
				t.Error(err)
			}
		}
		s.system.Shutdown()
	})
	return s
}

func (s *scene) spawn(name string, p *actor.Props) *actor.PID {
	pid, err := s.system.Root.SpawnNamed(p, name)
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

func (s *scene) tell(m any) { s.system.Root.RequestWithCustomSender(s.hub, m, s.me) }

func expect[M any](s *scene) M {
	s.t.Helper()
	select {
	case got := <-s.inbox:
		m, ok := got.(M)
		if !ok {
			s.t.Fatalf("got %T %+v", got, got)
		}
		return m
	case <-time.After(20 * time.Second):
		s.t.Fatal("nothing came")
	}
	panic("unreachable")
}

func batchOf(i protocol.Item) *messages.WatchBatch {
	if i.Batch == nil {
		return nil
	}
	return i.Batch.For(i.WatchIDs)
}

func (s *scene) show() {
	s.t.Helper()
	g := expect[*state.GetView](s)
	s.tell(&state.GotView{RequestID: g.RequestID, View: s.machine.View()})
}

func (s *scene) put(key string) {
	s.apply(&messages.Command{Op: &messages.Command_Put{Put: &messages.Put{Key: []byte(key)}}})
	s.tell(&state.Committed{Effects: s.machine.TakeEffects(), Applied: s.index})
}

// TestActor goes once through the life of a watch, and of the reports of how far
// the node's watches have come.
func TestActor(t *testing.T) {
	s := newScene(t)
	s.put("a")
	s.tell(&protocol.StartWatch{Session: 1, Call: 7, Request: all(3), After: protocol.EndOf(0)})
	s.tell(&messages.ClockTick{MonotonicMs: 1_100})
	if g := expect[*state.GetView](s); g.MinApplied > s.index {
		t.Fatalf("asked for index %d, applied is %d", g.MinApplied, s.index)
	} else {
		s.tell(&state.GotView{RequestID: g.RequestID + 9, View: nil}) // not mine
		s.tell(&state.GotView{RequestID: g.RequestID})                // refused: it asks again
	}
	s.show()
	if d := expect[*protocol.Deliver](s); d.Items[0].Started == nil || d.Items[0].Started.Call != 7 || len(d.Items) != 1 {
		t.Fatalf("got %+v", d)
	}
	// It is behind; the view that came serves for that too.
	if b := batchOf(expect[*protocol.Deliver](s).Items[0]); len(b.GetEvents()) != 1 || !b.Ready || !b.Last {
		t.Fatalf("got %v", b)
	}
	s.put("b")
	if b := batchOf(expect[*protocol.Deliver](s).Items[0]); b.GetTo().GetRevision() != 2 {
		t.Fatalf("got %v", b)
	}
	s.tell(&messages.ClockTick{MonotonicMs: 1_200})
	if c := expect[*protocol.Consumers](s); *c != (protocol.Consumers{After: 2, Active: true}) {
		t.Fatalf("reported %+v", c)
	}
	s.put("c")
	expect[*protocol.Deliver](s)
	s.tell(&messages.ClockTick{MonotonicMs: 1_900}) // not yet
	s.tell(&protocol.CancelWatch{Session: 1, WatchID: 3})
	if e := expect[*protocol.Deliver](s).Items[0].End; e.GetReason().GetCode() != messages.Code_CODE_CANCELLED || e.Resume.Revision != 3 {
		t.Fatalf("got %v", e)
	}
	s.tell(&messages.ClockTick{MonotonicMs: 2_300})
	if c := expect[*protocol.Consumers](s); *c != (protocol.Consumers{After: 3}) {
		t.Fatalf("reported %+v", c)
	}
	s.tell(&messages.ClockTick{MonotonicMs: 9_000}) // nothing new

	// A snapshot: the view in it is enough to go on.
	s.tell(&protocol.StartWatch{Session: 1, Call: 8, Request: all(4), After: protocol.EndOf(3)})
	if d := expect[*protocol.Deliver](s); d.Items[0].Started == nil || !batchOf(d.Items[1]).GetReady() {
		t.Fatalf("got %+v", d)
	}
	s.apply(&messages.Command{Op: &messages.Command_Put{Put: &messages.Put{Key: []byte("d")}}})
	s.machine.TakeEffects()
	s.tell(&state.Installed{View: s.machine.View()})
	if b := batchOf(expect[*protocol.Deliver](s).Items[0]); len(b.GetEvents()) != 1 || b.To.Revision != 4 {
		t.Fatalf("got %v", b)
	}
	if err := s.system.Root.StopFuture(s.hub).Wait(); err != nil {
		t.Fatal(err)
	}
	if e := expect[*protocol.Deliver](s).Items[0].End; e.GetReason().GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatalf("got %v", e)
	}
	s.hub = s.spawn("next", actor.PropsFromFunc(func(actor.Context) {})) // for the cleanup
}
