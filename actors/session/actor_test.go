package session

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	watchhub "github.com/concord-kv/concord/actors/watch"
	"github.com/concord-kv/concord/messages"
)

func putValue(key, value string) *messages.Operation {
	return write(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte(key), Value: []byte(value)}}})
}

func TestPutGetListAndWatch(t *testing.T) {
	n := newTown(t, Limits{}, watchhub.Limits{})
	g := n.visit()
	first := g.ask(putValue("a", "1"), put(""), putValue("b", "2"))
	r := g.answers(3)
	if r[first].GetResult().GetRevision() != 1 || r[first+1].GetError().GetField() != "key" || r[first+2].GetResult().GetRevision() != 2 {
		t.Fatalf("got %v", r)
	}
	call := g.ask(get("a", linearizable, 0))
	if rec := g.answers(1)[call].GetQuery().GetGet().GetRecord(); string(rec.GetValue()) != "1" {
		t.Fatalf("got %v", rec)
	}
	call = g.ask(watchOp(&messages.WatchRequest{WatchId: 7, List: &messages.ListRequest{}}))
	w := g.answers(1)[call].GetWatch()
	if len(w.GetList().GetRecords()) != 2 || w.GetFromRevision() != 3 {
		t.Fatalf("got %v", w)
	}
	n.visit().ask(putValue("a", "3"))
	var got *messages.WatchBatch
	g.until(func(m *messages.ServerMessage) bool {
		got = m.GetWatchBatch()
		return len(got.GetEvents()) > 0
	})
	if e := got.Events[0]; got.WatchId != 7 || !got.Last || e.Revision != 3 || string(e.Record.Value) != "3" {
		t.Fatalf("got %v", got)
	}
	g.send(&messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: 7}}})
	g.until(func(m *messages.ServerMessage) bool { return m.GetWatchEnd() != nil })
	n.eventually("no watch lives", func() bool { return n.watches.Load() == 0 })
}

func TestConnectionsAreLimited(t *testing.T) {
	n := newTown(t, Limits{ConnectionsMax: 2}, watchhub.Limits{})
	one := n.visit()
	n.visit()
	if e := n.approach().until(func(*messages.ServerMessage) bool { return false }); e.GetCode() != messages.Code_CODE_OVERLOADED || e.GetRetryAfterMs() == 0 {
		t.Fatalf("a third: %v", e)
	}
	one.stream.Close()
	n.eventually("a connection is gone", func() bool { return n.gateway.Connections() == 1 })
	n.visit()
}

func TestFailedSessionIsItsClientsAlone(t *testing.T) {
	n := newTown(t, Limits{}, watchhub.Limits{})
	healthy, victim := n.visit(), n.visit()
	victim.ask(watchOp(&messages.WatchRequest{WatchId: 1, FromRevision: 1}))
	victim.answers(1)
	n.poison.Store(true)
	victim.ask(get("k", stale, 0))
	e := victim.until(func(*messages.ServerMessage) bool { return false })
	n.poison.Store(false)
	if e.GetCode() != messages.Code_CODE_INTERNAL || e.GetOutcome() != messages.Outcome_OUTCOME_UNKNOWN {
		t.Fatalf("the victim was told %v", e)
	}
	n.eventually("nothing is left of it", func() bool {
		return n.gateway.Connections() == 1 && n.watches.Load() == 0 && n.gateway.admission.calls.Load() == 0
	})
	call := healthy.ask(putValue("k", "v"))
	if r := healthy.answers(1)[call]; r.GetResult().GetRevision() != 1 {
		t.Fatalf("the other one got %v", r)
	}
}

// TestSlowClientSlowsNobody: one that opens watches and writes, and never reads,
// while others write.
func TestSlowClientSlowsNobody(t *testing.T) {
	n := newTown(t, Limits{StallMs: 3_000}, watchhub.Limits{})
	blocked, healthy := n.visit(), n.visit()
	for id := range uint64(50) {
		blocked.ask(watchOp(&messages.WatchRequest{WatchId: id + 1, FromRevision: 1}))
	}
	value := strings.Repeat("x", 4<<10)
	for i := range 2_000 {
		call := healthy.ask(putValue(fmt.Sprint("k", i%10), value))
		if r := healthy.answers(1)[call]; r.GetResult().GetError() != nil {
			t.Fatalf("put %d: %v", i, r)
		}
		if i%100 == 0 {
			n.tick(250)
			healthy.send(&messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: &messages.Heartbeat{}}})
		}
	}
	n.eventually("it is cut off", func() bool {
		healthy.send(&messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: &messages.Heartbeat{}}})
		n.tick(250)
		return n.gateway.Connections() == 1 && n.watches.Load() == 0
	})
}

// TestLargeAnswersAtTheClientsPace: more is asked for than the node would hold.
func TestLargeAnswersAtTheClientsPace(t *testing.T) {
	n := newTown(t, Limits{QueueBytesMax: 4 << 20}, watchhub.Limits{})
	g := n.visit()
	g.ask(putValue("k", strings.Repeat("x", 512<<10)))
	g.answers(1)
	const reads = 256
	for range reads / 64 {
		var ops []*messages.Operation
		for range 64 {
			ops = append(ops, get("k", linearizable, 0))
		}
		g.ask(ops...)
	}
	n.eventually("all are in flight", func() bool { return n.gateway.admission.calls.Load() > 128 })
	for call, r := range g.answers(reads) {
		if len(r.GetQuery().GetGet().GetRecord().GetValue()) != 512<<10 {
			t.Fatalf("call %d: %v", call, r.GetError())
		}
	}
}

// TestManyCreatesAndCancelsWithoutReading: all answered, or the session ended by a
// limit; never a deadlock.
func TestManyCreatesAndCancelsWithoutReading(t *testing.T) {
	n := newTown(t, Limits{}, watchhub.Limits{})
	g := n.visit()
	const watches = 10_000
	sent := make(chan error, 1)
	go func() {
		for i := range uint64(watches) {
			if err := g.stream.Send(frame(42, i, watchOp(&messages.WatchRequest{WatchId: i + 1, FromRevision: 1 + i%2*1_000}))); err != nil {
				sent <- err
				return
			}
		}
		for i := range uint64(watches) {
			m := &messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: i + 1}}}
			if err := g.stream.Send(m); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	started, refused, ended := 0, 0, 0
	reason := g.until(func(m *messages.ServerMessage) bool {
		for _, r := range m.GetReplies().GetReplies() {
			if r.GetWatch() != nil {
				started++
			} else if r.GetError() != nil {
				refused++
			}
		}
		if m.GetWatchEnd() != nil {
			ended++
		}
		return started+refused == watches && ended == started
	})
	if reason != nil || started < messages.WatchersPerClientDefault {
		t.Fatalf("%d started, %d refused, %d ended; closed with %v", started, refused, ended, reason)
	}
	n.eventually("no watch lives", func() bool { return n.watches.Load() == 0 })
}

func TestVanishedClientsLeaveNothing(t *testing.T) {
	n := newTown(t, Limits{}, watchhub.Limits{})
	for range 50 {
		g := n.visit()
		for id := range uint64(20) {
			g.ask(watchOp(&messages.WatchRequest{WatchId: id + 1, FromRevision: 1}))
		}
		g.ask(putValue("k", "v"))
		g.stream.Close() // without a word
	}
	n.eventually("all of it is gone", func() bool {
		a := n.gateway.admission
		return n.gateway.Connections() == 0 && n.watches.Load() == 0 && a.calls.Load() == 0 && a.bytes.Load() == 0
	})
}

func TestCloseAnswersWhatIsInFlight(t *testing.T) {
	n := newTown(t, Limits{}, watchhub.Limits{})
	g, idle := n.visit(), n.visit()
	g.ask(watchOp(&messages.WatchRequest{WatchId: 1, FromRevision: 1}))
	g.answers(1)
	n.system.Root.Send(n.store, holdAnswers(true))
	call := g.ask(putValue("k", "v"))
	n.eventually("the put is in flight", func() bool { return n.gateway.admission.calls.Load() == 1 })
	closed := make(chan error, 1)
	go func() { closed <- n.gateway.Close(context.Background()) }()
	if e := idle.until(func(*messages.ServerMessage) bool { return false }); e.GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatalf("an idle client was told %v", e)
	}
	n.system.Root.Send(n.store, holdAnswers(false))
	answered, end := false, false
	e := g.until(func(m *messages.ServerMessage) bool {
		for _, r := range m.GetReplies().GetReplies() {
			answered = answered || r.Call == call && r.GetResult().GetRevision() == 1
		}
		end = end || m.GetWatchEnd().GetReason().GetCode() == messages.Code_CODE_NODE_STOPPING
		return false
	})
	if !answered || !end || e.GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatalf("answered %v, watch ended %v, closed with %v", answered, end, e)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if e := n.approach().until(func(*messages.ServerMessage) bool { return false }); e.GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatalf("a late client was told %v", e)
	}
}

// TestCloseCutsOffWhatIsStuck: a replica that does not answer, a client that does
// not read.
func TestCloseCutsOffWhatIsStuck(t *testing.T) {
	n := newTown(t, Limits{}, watchhub.Limits{})
	g := n.visit()
	n.system.Root.Send(n.store, holdAnswers(true))
	g.ask(putValue("k", "v"))
	n.eventually("the put is in flight", func() bool { return n.gateway.admission.calls.Load() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := n.gateway.Close(ctx); err != context.DeadlineExceeded {
		t.Fatalf("closed with %v", err)
	}
	if e := g.until(func(*messages.ServerMessage) bool { return false }); e.GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatalf("told %v", e)
	}
}

// TestGatewayHearsOfAnEndTwice: the end of a session may be reported more than once.
func TestGatewayHearsOfAnEndTwice(t *testing.T) {
	n := newTown(t, Limits{}, watchhub.Limits{})
	g := n.visit()
	g.stream.Close()
	n.eventually("it is gone", func() bool { return n.gateway.Connections() == 0 })
	n.gateway.system.Root.Send(n.gateway.PID(), terminatedOf("gateway/none"))
	n.gateway.system.Root.Send(n.gateway.PID(), terminatedOf(""))
	n.visit()
}
