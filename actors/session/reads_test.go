package session

import (
	"testing"

	"github.com/concord-kv/concord/messages"
)

func TestReadsShareABarrierAndAView(t *testing.T) {
	d := newDesk(t, Limits{})
	d.ask(get("a", linearizable, 0), get("b", linearizable, 0), get("bad", linearizable, 0))
	if len(d.barriers) != 1 || len(d.views) != 0 {
		t.Fatalf("%d barriers, %d views", len(d.barriers), len(d.views))
	}
	for range 10 {
		d.ask(get("later", linearizable, 0))
	}
	if len(d.barriers) != barriersMax {
		t.Fatalf("%d barriers under way", len(d.barriers))
	}
	v := &page{revision: 5}
	d.read(v)
	r := d.replies()
	if len(r) != 3 || r[0].GetQuery().GetRevision() != 5 || r[2].GetError().GetCode() != messages.Code_CODE_COMPACTED {
		t.Fatalf("got %v", r)
	}
	answered := 0
	for len(d.barriers) > 0 {
		d.read(v)
		answered += len(d.replies())
	}
	if answered != 10 || d.core.calls != 0 {
		t.Fatalf("%d answered, %d left", answered, d.core.calls)
	}
}

func TestBarrierFails(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(get("a", linearizable, 0))
	d.core.barrierReached(&messages.BarrierReached{RequestId: d.barriers[0].RequestId, Error: messages.NewError(messages.Code_CODE_NO_LEADER, "x").Detail})
	d.run()
	d.refused(first, messages.Code_CODE_NO_LEADER, "")
}

func TestStaleReadsTakeAnyView(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(get("a", stale, 0))
	if len(d.barriers) != 0 {
		t.Fatal("a stale read waits for a barrier")
	}
	d.show(&page{revision: 1})
	d.reply(first)
	d.ask(get("a", stale, 0))
	d.core.gotNoView(d.views[0].RequestID)
	d.run()
	d.refused(first+1, messages.Code_CODE_OVERLOADED, "")
}

// TestMinRevision: a client that has seen a revision never reads an older one.
func TestMinRevision(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(get("a", stale, 7))
	d.show(&page{revision: 6})
	d.quiet()
	d.read(&page{revision: 7}) // a barrier brings what was acknowledged
	d.reply(first)

	d.ask(get("a", linearizable, 9))
	d.read(&page{revision: 8})
	d.quiet()
	d.alive(tickMs) // it comes later
	d.read(&page{revision: 9})
	d.reply(first + 1)

	d.ask(get("a", linearizable, 1_000))
	for i := 0; d.taken == len(d.sent) || len(d.barriers) > 0; i++ {
		if len(d.barriers) > 0 {
			d.read(&page{revision: 9})
		}
		d.alive(tickMs)
		if i > 100 {
			t.Fatal("never answered")
		}
		if d.core.calls == 0 {
			break
		}
	}
	d.refused(first+2, messages.Code_CODE_TIMEOUT, "")
}

func TestStatusHasTheNodesFacts(t *testing.T) {
	d := newDesk(t, Limits{})
	d.adm.connect()
	first := d.ask(&messages.Operation{Operation: &messages.Operation_Query{Query: &messages.Query{
		Consistency: stale, Query: &messages.Query_Status{Status: &messages.StatusRequest{}},
	}}})
	d.show(&page{revision: 4})
	s := d.reply(first).GetQuery().GetStatus()
	if s.GetKeys() != 5 || s.GetIncarnation() != 3 || s.GetLeaderId() != 2 || s.GetClients() != 1 || s.GetVersion() != "v" {
		t.Fatalf("status %v", s)
	}
}

// TestReadsWaitForTheClient: a client that asks for much is served at its own
// pace, not out of the node's memory.
func TestReadsWaitForTheClient(t *testing.T) {
	d := newDesk(t, Limits{QueueBytesMax: 8 << 20})
	var ops []*messages.Operation
	for range 64 {
		ops = append(ops, get("k", stale, 0))
	}
	d.ask(ops...)
	v := &page{revision: 1, answer: 512 << 10}
	d.show(v)
	if n := len(v.asked); n > 3 || n < 1 || d.low < 0 || d.closing {
		t.Fatalf("%d of 64 answered with 1 MiB waiting at most, called at %d", n, d.low)
	}
	for range 64 {
		d.backlog, d.low = 0, -1
		d.written++
		d.core.wrote(0)
		d.run()
	}
	if len(v.asked) != 64 || d.core.calls != 0 {
		t.Fatalf("%d answered, %d left", len(v.asked), d.core.calls)
	}
}

// TestLargeAnswersTravelAlone: replies are packed, but not beyond a message.
func TestLargeAnswersTravelAlone(t *testing.T) {
	d := newDesk(t, Limits{})
	var ops []*messages.Operation
	for range 4 {
		ops = append(ops, get("k", stale, 0))
	}
	d.ask(ops...)
	d.show(&page{revision: 1, answer: 200 << 10})
	for range 4 {
		if n := len(d.replies()); n != 1 {
			t.Fatalf("%d answers of 200 KiB in one message", n)
		}
	}
}

// TestLongReadsWaitForTheClient: of a client that reads nothing, one read that may take long
// is answered, however many it asks for and however small what waits; each that it takes
// lets the next begin. Beside them a get is answered.
func TestLongReadsWaitForTheClient(t *testing.T) {
	d := newDesk(t, Limits{})
	list := &messages.Operation{Operation: &messages.Operation_Query{Query: &messages.Query{
		Consistency: stale, Query: &messages.Query_List{List: &messages.ListRequest{Selector: &messages.Selector{By: &messages.Selector_Prefix{}}}},
	}}}
	const n = 20
	v := &page{revision: 1, answer: longAheadBytes}
	for i := range n {
		d.ask(list)
		d.show(v)
		if len(v.asked) != 1 {
			t.Fatalf("%d lists were looked up for a client that has read none, of %d", len(v.asked), i+1)
		}
	}
	if d.low < 0 || d.adm.longs.Load() != n-1 {
		t.Fatalf("called at %d, %d wait", d.low, d.adm.longs.Load())
	}
	for i := range n - 1 {
		d.backlog, d.low = 0, -1
		d.core.wrote(0)
		d.run()
		if len(v.asked) != i+2 {
			t.Fatalf("%d lists after %d were taken", len(v.asked), i+1)
		}
	}
	d.backlog, d.low = 0, -1
	d.core.wrote(0)
	d.run()
	d.backlog = longAheadBytes
	d.ask(get("k", stale, 0))
	d.show(v)
	if len(v.asked) != n+1 || d.core.calls != 0 || d.adm.longs.Load() != 0 {
		t.Fatalf("%d looked up, %d calls are left, %d of them long", len(v.asked), d.core.calls, d.adm.longs.Load())
	}
}
