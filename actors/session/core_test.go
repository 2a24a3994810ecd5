package session

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

func hello(h *messages.ClientHello) *messages.ClientMessage {
	return &messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: h}}
}

func TestHelloIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		hello *messages.ClientHello
		code  messages.Code
		field string
		ready bool
	}{
		{"protocol", &messages.ClientHello{Protocol: 2}, messages.Code_CODE_UNSUPPORTED, "protocol", true},
		{"no protocol", &messages.ClientHello{}, messages.Code_CODE_UNSUPPORTED, "protocol", true},
		{"name", &messages.ClientHello{Protocol: 1, ClientName: strings.Repeat("n", 257)}, messages.Code_CODE_INVALID_ARGUMENT, "client_name", true},
		{"cluster", &messages.ClientHello{Protocol: 1, ClusterId: []byte("other")}, messages.Code_CODE_WRONG_INCARNATION, "cluster_id", true},
		{"incarnation", &messages.ClientHello{Protocol: 1, Incarnation: 2}, messages.Code_CODE_WRONG_INCARNATION, "incarnation", true},
		{"not ready", &messages.ClientHello{Protocol: 1}, messages.Code_CODE_NOT_READY, "", false},
	} {
		d := rawDesk(t, Limits{})
		d.node.facts.Ready = c.ready
		d.say(hello(c.hello))
		if !d.closing || d.reason.GetCode() != c.code || d.reason.GetField() != c.field {
			t.Errorf("%s: closed %v with %v", c.name, d.closing, d.reason)
		}
		d.quiet()
	}
}

// TestGarbageEndsTheConnection: what cannot be understood, or would make answers
// ambiguous.
func TestGarbageEndsTheConnection(t *testing.T) {
	for name, m := range map[string]*messages.ClientMessage{
		"nil":           nil,
		"empty":         {},
		"second hello":  hello(&messages.ClientHello{Protocol: 1}),
		"empty frame":   frame(42, 0),
		"nil frame":     {Message: &messages.ClientMessage_Frame{}},
		"other epoch":   frame(41, 0, put("k")),
		"numbers wrap":  frame(42, ^uint64(0), put("k"), put("k")),
		"number reused": frame(42, 0, put("k")),
	} {
		d := newDesk(t, Limits{})
		if name == "number reused" {
			d.ask(put("k"), put("k"))
		}
		d.say(m)
		if !d.closing || d.reason.GetCode() != messages.Code_CODE_PROTOCOL {
			t.Errorf("%s: closed %v with %v", name, d.closing, d.reason)
		}
		d.say(frame(42, 100, put("k"))) // it is over
		d.quiet()
	}
	d := rawDesk(t, Limits{})
	d.say(frame(42, 0, put("k")))
	if d.reason.GetCode() != messages.Code_CODE_PROTOCOL {
		t.Errorf("no hello: %v", d.reason)
	}
}

// TestGarbageInAFrameHarmsOnlyItself: each operation is answered for itself.
func TestGarbageInAFrameHarmsOnlyItself(t *testing.T) {
	d := newDesk(t, Limits{})
	d.ask(
		put("good"),
		put(""),
		nil,
		&messages.Operation{},
		write(nil),
		write(&messages.Write{}),
		write(&messages.Write{Incarnation: 2, Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("k")}}}),
		write(&messages.Write{Op: &messages.Write_Put{}}),
		&messages.Operation{Operation: &messages.Operation_Query{}},
		get("", linearizable, 0),
		&messages.Operation{Operation: &messages.Operation_Watch{}},
		watchOp(&messages.WatchRequest{}),
		put("better"),
	)
	want := map[uint64]string{
		1: "invalid_argument key", 2: "invalid_argument operation", 3: "invalid_argument operation", 4: "invalid_argument write",
		5: "unsupported op", 6: "wrong_incarnation incarnation", 7: "invalid_argument put", 8: "invalid_argument query",
		9: "invalid_argument key", 10: "invalid_argument watch", 11: "invalid_argument watch_id",
	}
	for _, r := range d.replies() {
		e := r.GetError()
		if got := messages.CodeName(e.GetCode()) + " " + e.GetField(); got != want[r.Call] || e.GetOutcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Errorf("call %d: %s (%v), want %s", r.Call, got, e, want[r.Call])
		}
		delete(want, r.Call)
	}
	if len(want) > 0 || len(d.proposed) != 1 || len(d.proposed[0].Commands) != 2 {
		t.Fatalf("no answer to %v; proposed %v", want, d.proposed)
	}
	d.answer()
	if r := d.replies(); len(r) != 2 || r[0].Call != 0 || r[1].Call != 12 {
		t.Fatalf("got %v", r)
	}
}

func TestFrameLimits(t *testing.T) {
	d := newDesk(t, Limits{})
	d.ask(keys(65)...)
	if r := d.replies(); len(r) != 65 || r[64].GetError().GetCode() != messages.Code_CODE_TOO_LARGE || r[64].GetError().GetLimit() != 64 {
		t.Fatalf("65 operations: %v", r)
	}
	large := func() *messages.Operation {
		return write(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("k"), Value: make([]byte, 200<<10)}}})
	}
	d.ask(large(), large())
	if r := d.replies(); len(r) != 2 || r[0].GetError().GetCode() != messages.Code_CODE_TOO_LARGE {
		t.Fatalf("400 KiB: %v", r)
	}
	d.ask(large())
	if len(d.proposed) != 1 {
		t.Fatal("one large operation was not taken")
	}
	d.answer()
	d.replies()
	first := d.nextCall
	d.nextCall++
	m := frame(42, first, put("k"))
	m.GetFrame().TimeoutMs = messages.RequestTimeoutMsMax + 1
	d.say(m)
	d.refused(first, messages.Code_CODE_INVALID_ARGUMENT, "timeout_ms")
	if d.closing {
		t.Fatalf("closed: %v", d.reason)
	}
}

func TestWritesAreProposedInOrderAndAnsweredTogether(t *testing.T) {
	d := newDesk(t, Limits{})
	d.core.received(frame(42, 0, keys(3)...))
	d.core.received(frame(42, 3, keys(2)...)) // in the same burst
	d.run()
	if len(d.proposed) != 1 || len(d.proposed[0].Commands) != 5 || d.proposed[0].TimeoutMs != messages.RequestTimeoutMsDefault {
		t.Fatalf("proposed %v", d.proposed)
	}
	p := d.proposed[0]
	if c := p.Commands[0]; c.Principal != "alice" || c.StampMs != 0 || c.RequestHash != nil {
		t.Fatalf("command %v", c)
	}
	result := func(rev uint64) *messages.Result { return &messages.Result{Revision: rev} }
	d.core.proposed(&messages.Proposed{RequestId: p.RequestId, First: 2, Results: []*messages.Result{result(13), result(14)}})
	d.core.proposed(&messages.Proposed{RequestId: p.RequestId, First: 0, Results: []*messages.Result{result(11), result(12)}})
	d.run()
	var got []uint64
	for _, r := range d.replies() {
		if r.Call+11 != r.GetResult().GetRevision() {
			t.Fatalf("call %d was answered %v", r.Call, r)
		}
		got = append(got, r.Call)
	}
	if !slices.Equal(got, []uint64{2, 3, 0, 1}) {
		t.Fatalf("answered %v", got)
	}
	// Twice the same, out of range, and of a request that never was: nobody's.
	d.core.proposed(&messages.Proposed{RequestId: p.RequestId, First: 3, Results: []*messages.Result{result(1)}})
	d.core.proposed(&messages.Proposed{RequestId: p.RequestId, First: 9, Results: []*messages.Result{result(1)}})
	d.core.proposed(&messages.Proposed{RequestId: 999, Results: []*messages.Result{result(1)}})
	d.run()
	d.quiet()
	d.core.proposed(&messages.Proposed{RequestId: p.RequestId, First: 4, Results: []*messages.Result{result(15)}})
	d.run()
	d.reply(4)
	if d.core.calls != 0 || d.core.bytes != 0 || d.adm.calls.Load() != 0 || d.adm.bytes.Load() != 0 || len(d.core.writes.byRequest) != 0 {
		t.Fatalf("left: %d calls, %d bytes", d.core.calls, d.core.bytes)
	}
}

func TestIdempotentWriteCarriesItsHash(t *testing.T) {
	d := newDesk(t, Limits{})
	w := &messages.Write{IdempotencyKey: "i", Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("k"), Value: []byte("v")}}}
	d.ask(write(w))
	d.ask(write(&messages.Write{IdempotencyKey: "other", Incarnation: 3, Op: w.Op}))
	d.ask(write(&messages.Write{IdempotencyKey: "i", Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("k"), Value: []byte("w")}}}))
	want, err := messages.RequestHash(w)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(i int) []byte { return d.proposed[i].Commands[0].RequestHash }
	if len(want) != 32 || !bytes.Equal(hash(0), want) || !bytes.Equal(hash(1), want) || bytes.Equal(hash(2), want) {
		t.Fatalf("hashes %x %x %x, want %x", hash(0), hash(1), hash(2), want)
	}
}

// TestRefusalsBeforeTheLogAreErrors: a client can tell what apply answered from
// what did not get there.
func TestRefusalsBeforeTheLogAreErrors(t *testing.T) {
	d := newDesk(t, Limits{})
	d.ask(keys(4)...)
	p := d.proposed[0]
	d.core.proposed(&messages.Proposed{RequestId: p.RequestId, Results: []*messages.Result{
		{Error: messages.NewError(messages.Code_CODE_NO_LEADER, "x").Detail},
		{Error: messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "x").Detail},
		{Error: messages.NewError(messages.Code_CODE_LEASE_CONFLICT, "x").Detail},
		{Error: messages.NewError(messages.Code_CODE_OVERLOADED, "x").Detail},
	}})
	d.run()
	r := d.replies()
	if r[0].GetError() == nil || r[1].GetError().GetOutcome() != messages.Outcome_OUTCOME_UNKNOWN || r[2].GetResult().GetError() == nil || r[3].GetError() == nil {
		t.Fatalf("got %v", r)
	}
}

func TestCallsInFlightAreLimited(t *testing.T) {
	d := newDesk(t, Limits{CallsPerConnection: 3})
	d.ask(append(keys(2), get("k", linearizable, 0), put("over"), watchOp(&messages.WatchRequest{WatchId: 1}))...)
	r := d.replies()
	for i, want := range []uint64{3, 4} {
		e := r[i].GetError()
		if r[i].Call != want || e.GetCode() != messages.Code_CODE_OVERLOADED || e.GetOutcome() != messages.Outcome_OUTCOME_NOT_APPLIED || e.GetRetryAfterMs() == 0 || e.GetLimit() != 3 {
			t.Fatalf("got %v", r)
		}
	}
	d.answer()
	d.replies()
	d.ask(put("again"))
	if len(d.proposed) != 1 {
		t.Fatal("there is room, and it was refused")
	}
}

func TestBytesInFlightAreLimited(t *testing.T) {
	large := func() *messages.Operation {
		return write(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("k"), Value: make([]byte, 1000)}}})
	}
	d := newDesk(t, Limits{BytesPerConnection: 500})
	first := d.ask(large()) // one is always admitted
	d.ask(large())
	d.refused(first+1, messages.Code_CODE_OVERLOADED, "")
	d.answer()
	d.reply(first)

	d = newDesk(t, Limits{BytesPerNode: 500})
	other := newCore(10, "", d.core.cfg, d.adm, d)
	if err := d.adm.share(other); err != nil {
		t.Fatal(err)
	}
	if err := other.admit(400, false); err != nil {
		t.Fatal(err)
	}
	d.ask(large())
	d.refused(0, messages.Code_CODE_OVERLOADED, "")
	other.stopped()
	d.ask(large())
	d.answer()
	d.reply(1)
	if d.adm.calls.Load() != 0 || d.adm.bytes.Load() != 0 {
		t.Fatalf("the node counts %d calls, %d bytes", d.adm.calls.Load(), d.adm.bytes.Load())
	}
}

func TestSilentReplicaIsAnsweredFor(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(put("k"), get("k", linearizable, 0))
	p := d.proposed[0]
	d.alive(messages.RequestTimeoutMsDefault + tickMs)
	if e := d.reply(first + 1).GetError(); e.GetCode() != messages.Code_CODE_TIMEOUT || e.GetOutcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
		t.Fatalf("a read: %v", e)
	}
	d.alive(graceMs + tickMs)
	if e := d.reply(first).GetError(); e.GetCode() != messages.Code_CODE_TIMEOUT || e.GetOutcome() != messages.Outcome_OUTCOME_UNKNOWN {
		t.Fatalf("a write: %v", e)
	}
	d.core.proposed(&messages.Proposed{RequestId: p.RequestId, Results: []*messages.Result{{Revision: 1}}}) // too late
	d.core.barrierReached(&messages.BarrierReached{RequestId: d.barriers[0].RequestId})
	d.run()
	if len(d.views) > 0 {
		d.show(&page{})
	}
	d.quiet()
	if d.core.calls != 0 {
		t.Fatalf("%d calls are left", d.core.calls)
	}
}

func TestHeartbeatsBothWays(t *testing.T) {
	d := newDesk(t, Limits{})
	d.alive(10_000)
	var numbers []uint64
	for _, m := range d.sent {
		if h := m.GetHeartbeat(); h != nil {
			numbers = append(numbers, h.Number)
		}
	}
	if len(numbers) < 10 || len(numbers) > 14 || numbers[0] != 1 || numbers[len(numbers)-1] != uint64(len(numbers)) {
		t.Fatalf("heartbeats %v", numbers)
	}
	d.tick(4_000)
	if d.closing {
		t.Fatalf("closed too soon: %v", d.reason)
	}
	d.tick(2_000)
	if !d.closed || d.reason.GetCode() != messages.Code_CODE_UNAVAILABLE || d.reason.GetOutcome() != messages.Outcome_OUTCOME_UNKNOWN {
		t.Fatalf("a silent client: closed %v with %v", d.closed, d.reason)
	}
}

func TestSuspendedNodeBlamesNobody(t *testing.T) {
	d := newDesk(t, Limits{})
	d.core.tick(d.nowMs+3_600_000, d.received, false)
	if d.closing {
		t.Fatalf("closed: %v", d.reason)
	}
	d.core.tick(d.nowMs+3_700_000, d.received, true) // its own session was slow to take what it said
	d.core.tick(d.nowMs+3_800_000, d.received, true)
	if d.closing {
		t.Fatalf("closed: %v", d.reason)
	}
}

func TestNoHello(t *testing.T) {
	d := rawDesk(t, Limits{})
	d.tick(helloMs + 2*tickMs)
	if d.reason.GetCode() != messages.Code_CODE_PROTOCOL {
		t.Fatalf("closed with %v", d.reason)
	}
	d.tick(closeMs + tickMs)
	if !d.closed {
		t.Fatal("a stream that does not take its end was not cut")
	}
}

func TestLeaderHint(t *testing.T) {
	d := newDesk(t, Limits{})
	d.core.leaderChanged(&messages.LeaderChanged{LeaderId: 2})
	if h := d.take().GetLeaderHint(); h.GetLeaderId() != 2 || h.GetEndpoint() != "b:1" {
		t.Fatalf("hint %v", h)
	}
	d.core.leaderChanged(&messages.LeaderChanged{LeaderId: 3}) // the facts are of another
	if h := d.take().GetLeaderHint(); h.GetLeaderId() != 3 || h.GetEndpoint() != "" {
		t.Fatalf("hint %v", h)
	}
}

func TestGoodbye(t *testing.T) {
	d := newDesk(t, Limits{})
	d.ask(put("k"))
	d.say(&messages.ClientMessage{Message: &messages.ClientMessage_Goodbye{Goodbye: &messages.Goodbye{}}})
	if !d.closing || d.reason != nil {
		t.Fatalf("closing %v with %v", d.closing, d.reason)
	}
	d.answer() // for nobody
	d.core.stopped()
	if m := hubSays[*protocol.SessionClosed](d); m.Session != 9 {
		t.Fatalf("the hub was told %v", m)
	}
	if d.adm.calls.Load() != 0 || d.adm.bytes.Load() != 0 {
		t.Fatalf("the node counts %d calls", d.adm.calls.Load())
	}
}

func TestDrainAnswersWhatIsInFlight(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(put("k"))
	d.core.drain()
	d.run()
	if d.closing {
		t.Fatalf("closed before the call was answered: %v", d.reason)
	}
	d.ask(put("late"))
	d.refused(first+1, messages.Code_CODE_NODE_STOPPING, "")
	d.answer()
	d.reply(first)
	if !d.closing || d.reason.GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatalf("closing %v with %v", d.closing, d.reason)
	}
}

// TestClientThatNeverReads: what waits for it is bounded, and then it is over.
func TestClientThatNeverReads(t *testing.T) {
	d := newDesk(t, Limits{QueueBytesMax: 1 << 20})
	prev := &messages.Record{Key: []byte("k"), Value: make([]byte, 1<<20)}
	for i := 0; i < 100 && !d.closing; i++ {
		d.ask(put("k"))
		p := d.proposed[0]
		d.proposed = nil
		d.core.proposed(&messages.Proposed{RequestId: p.RequestId, Results: []*messages.Result{
			{Answer: &messages.Result_Put{Put: &messages.PutResult{Prev: prev}}},
		}})
		d.run()
	}
	if !d.closed || d.reason.GetCode() != messages.Code_CODE_SLOW_CONSUMER || d.backlog > 13<<20 {
		t.Fatalf("closed %v with %v, %d bytes wait", d.closed, d.reason, d.backlog)
	}
	d = newDesk(t, Limits{})
	d.ask(put(""))
	d.backlog, d.written = 1, 1
	d.alive(29_000)
	if d.closing {
		t.Fatalf("closed: %v", d.reason)
	}
	d.backlog = 1
	d.alive(3_000)
	if !d.closed || d.reason.GetCode() != messages.Code_CODE_SLOW_CONSUMER {
		t.Fatalf("closed %v with %v", d.closed, d.reason)
	}
}
