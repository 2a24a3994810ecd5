package session

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

func batchOf(id, revision uint64) protocol.Item {
	return protocol.Item{Bytes: 100, WatchIDs: []uint64{id}, Batch: messages.NewSharedBatch(
		[]*messages.Event{{Revision: revision}}, protocol.EndOf(revision).Proto(), true, false)}
}

func (d *desk) started(call, id, from uint64) protocol.Item {
	return protocol.Item{Started: &protocol.Started{Call: call, WatchID: id, From: from, Current: 20}}
}

func (d *desk) endOf(id, revision uint64, code messages.Code) protocol.Item {
	return protocol.Item{End: &messages.WatchEnd{
		WatchId: id, Reason: messages.NewError(code, "x").Detail, Resume: protocol.EndOf(revision).Proto(),
	}}
}

func TestWatchFromAPlace(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(watchOp(&messages.WatchRequest{WatchId: 1, FromRevision: 10}))
	if m := hubSays[*protocol.StartWatch](d); m.After != protocol.EndOf(9) || m.Call != first || m.Session != 9 {
		t.Fatalf("the hub was told %+v", m)
	}
	d.deliver(d.started(first, 1, 10), batchOf(1, 10))
	if w := d.reply(first).GetWatch(); w.GetFromRevision() != 10 || w.GetCurrentRevision() != 20 || w.GetWatchId() != 1 {
		t.Fatalf("answered %v", w)
	}
	if b := d.take().GetWatchBatch(); b.GetTo().GetRevision() != 10 {
		t.Fatalf("the answer must come before the first batch; got %v", b)
	}
	d.ask(watchOp(&messages.WatchRequest{WatchId: 2, After: &messages.Position{Revision: 10, OpIndex: 3}}))
	if m := hubSays[*protocol.StartWatch](d); m.After != (protocol.Position{Revision: 10, Op: 3}) {
		t.Fatalf("the hub was told %+v", m)
	}
	d.say(&messages.ClientMessage{Message: &messages.ClientMessage_WatchCredit{WatchCredit: &messages.WatchCredit{WatchId: 1, Events: 5, Bytes: 6}}})
	if m := hubSays[*protocol.GrantCredit](d); *m != (protocol.GrantCredit{Session: 9, WatchID: 1, Events: 5, Bytes: 6}) {
		t.Fatalf("the hub was told %+v", m)
	}
	d.say(&messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: 1}}})
	hubSays[*protocol.CancelWatch](d)
	d.deliver(d.endOf(1, 10, messages.Code_CODE_CANCELLED), batchOf(1, 11)) // nothing after the end
	if e := d.take().GetWatchEnd(); e.GetReason().GetCode() != messages.Code_CODE_CANCELLED {
		t.Fatalf("got %v", e)
	}
	d.quiet()
	if m := hubSays[*protocol.Drained](d); m.Bytes != 100 {
		t.Fatalf("what was dropped was not given back: %+v", m)
	}
}

// TestWatchFromNow begins after everything acknowledged before the call.
func TestWatchFromNow(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(watchOp(&messages.WatchRequest{WatchId: 1}))
	d.say(&messages.ClientMessage{Message: &messages.ClientMessage_WatchCredit{WatchCredit: &messages.WatchCredit{WatchId: 1, Events: 5, Bytes: 6}}})
	if len(d.hub) != 0 {
		t.Fatalf("the hub was told %v", d.hub)
	}
	d.read(&page{revision: 33})
	if m := d.hub[0].(*protocol.StartWatch); m.After != protocol.EndOf(33) {
		t.Fatalf("the hub was told %+v", m)
	}
	if m := hubSays[*protocol.GrantCredit](d); m.Events != 5 {
		t.Fatalf("the credit that came early: %+v", m)
	}
	d.deliver(d.started(first, 1, 34))
	if w := d.reply(first).GetWatch(); w.GetFromRevision() != 34 {
		t.Fatalf("answered %v", w)
	}
}

func TestListAndWatch(t *testing.T) {
	d := newDesk(t, Limits{})
	selector := &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte("p/")}}
	request := &messages.WatchRequest{WatchId: 1, Selector: selector, List: &messages.ListRequest{Limit: 10}}
	before := proto.CloneOf(request)
	first := d.ask(watchOp(request))
	v := &page{revision: 33}
	d.read(v)
	if q := v.asked[0].GetList(); q.GetLimit() != 10 || !proto.Equal(q.GetSelector(), selector) {
		t.Fatalf("listed %v", q)
	}
	if m := hubSays[*protocol.StartWatch](d); m.After != protocol.EndOf(33) {
		t.Fatalf("the hub was told %+v", m)
	}
	d.deliver(d.started(first, 1, 34))
	w := d.reply(first).GetWatch()
	if w.GetFromRevision() != 34 || w.GetList().GetRevision() != 33 || len(w.GetList().GetRecords()) != 1 {
		t.Fatalf("answered %v", w)
	}
	if !proto.Equal(request, before) {
		t.Fatal("the client's own message was changed")
	}
	other := &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte("q/")}}
	d.ask(watchOp(&messages.WatchRequest{WatchId: 2, Selector: selector, List: &messages.ListRequest{Selector: other}}))
	d.refused(first+1, messages.Code_CODE_INVALID_ARGUMENT, "list.selector")
}

func TestCancelBeforeTheWatchBegan(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(watchOp(&messages.WatchRequest{WatchId: 1}))
	d.say(&messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: 1}}})
	d.refused(first, messages.Code_CODE_CANCELLED, "")
	d.read(&page{revision: 1})
	if len(d.hub) != 0 {
		t.Fatalf("the hub was told %v", d.hub)
	}
	d.ask(watchOp(&messages.WatchRequest{WatchId: 1, FromRevision: 1})) // the id is free
	hubSays[*protocol.StartWatch](d)
	d.quiet()
}

// TestRefusedWatchHarmsNoOther: a refusal is of the call, the others go on.
func TestRefusedWatchHarmsNoOther(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(watchOp(&messages.WatchRequest{WatchId: 1, FromRevision: 1}))
	d.deliver(d.started(first, 1, 1))
	d.reply(first)
	d.ask(watchOp(&messages.WatchRequest{WatchId: 1, FromRevision: 1}))
	d.refused(first+1, messages.Code_CODE_WATCH_EXISTS, "watch_id")
	d.ask(watchOp(&messages.WatchRequest{WatchId: 2, FromRevision: messages.RevisionMax + 1}))
	d.refused(first+2, messages.Code_CODE_INVALID_ARGUMENT, "from_revision")
	d.ask(watchOp(&messages.WatchRequest{WatchId: 2, FromRevision: 1}))
	d.deliver(protocol.Item{Refused: &protocol.Refused{Call: first + 3, Error: messages.NewError(messages.Code_CODE_COMPACTED, "x").Detail}})
	d.refused(first+3, messages.Code_CODE_COMPACTED, "")
	d.deliver(batchOf(1, 2), batchOf(2, 2))
	if b := d.take().GetWatchBatch(); b.GetWatchId() != 1 {
		t.Fatalf("got %v", b)
	}
	d.quiet()
	if d.core.calls != 0 {
		t.Fatalf("%d calls are left", d.core.calls)
	}
}

func TestDrainEndsWatchesWithTheirPlace(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(watchOp(&messages.WatchRequest{WatchId: 2, FromRevision: 1}), watchOp(&messages.WatchRequest{WatchId: 1, FromRevision: 5}),
		watchOp(&messages.WatchRequest{WatchId: 3}), watchOp(&messages.WatchRequest{WatchId: 4, FromRevision: 1}))
	d.deliver(d.started(first, 2, 1), d.started(first+1, 1, 5), batchOf(2, 7))
	d.replies()
	d.take()
	d.core.drain()
	d.run()
	for _, want := range []struct{ id, revision uint64 }{{1, 4}, {2, 7}} {
		e := d.take().GetWatchEnd()
		if e.GetWatchId() != want.id || e.GetResume().GetRevision() != want.revision || e.GetReason().GetCode() != messages.Code_CODE_NODE_STOPPING {
			t.Fatalf("got %v, want watch %d after %d", e, want.id, want.revision)
		}
	}
	for _, r := range d.replies() {
		if r.GetError().GetCode() != messages.Code_CODE_NODE_STOPPING {
			t.Fatalf("got %v", r)
		}
	}
	d.deliver(d.started(first+3, 4, 1), batchOf(4, 8), batchOf(2, 8)) // was on the way
	d.quiet()
	if !d.closing {
		t.Fatal("the stream goes on")
	}
}

// TestWatchTimesOutBeforeItBegan, and its id is free again.
func TestWatchTimesOutBeforeItBegan(t *testing.T) {
	d := newDesk(t, Limits{})
	first := d.ask(watchOp(&messages.WatchRequest{WatchId: 1}))
	d.alive(messages.RequestTimeoutMsDefault + tickMs)
	d.refused(first, messages.Code_CODE_TIMEOUT, "")
	if len(d.core.watches.byID) != 0 {
		t.Fatal("it still has its id")
	}
}
