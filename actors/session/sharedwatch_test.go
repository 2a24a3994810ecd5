package session

import (
	"slices"
	"testing"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

// TestBatchForThoseThatAreLeft: a batch for several watches goes to those that have not
// ended meanwhile, once; what nobody is left for is given back to the hub.
func TestBatchForThoseThatAreLeft(t *testing.T) {
	d := newDesk(t, Limits{})
	for id := range uint64(3) {
		call := d.ask(watchOp(&messages.WatchRequest{WatchId: id + 1, FromRevision: 10}))
		hubSays[*protocol.StartWatch](d)
		d.deliver(d.started(call, id+1, 10))
		d.reply(call)
	}
	shared := func(revision uint64) protocol.Item {
		item := batchOf(1, revision)
		item.WatchIDs = []uint64{1, 2, 3}
		return item
	}
	// The second ends in the middle of what the hub had ready.
	d.deliver(shared(10), d.endOf(2, 10, messages.Code_CODE_SLOW_CONSUMER), shared(11))
	for _, want := range [][]uint64{{1, 2, 3}, nil, {1, 3}} {
		m := d.take()
		if want == nil {
			if e := m.GetWatchEnd(); e.GetWatchId() != 2 {
				t.Fatalf("got %v", m)
			}
			continue
		}
		b := m.GetWatchBatch()
		if ids := append([]uint64{b.GetWatchId()}, b.GetAlsoWatchIds()...); !slices.Equal(ids, want) {
			t.Fatalf("sent to %v, want %v", ids, want)
		}
	}
	d.deliver(d.endOf(1, 11, messages.Code_CODE_CANCELLED), d.endOf(3, 11, messages.Code_CODE_CANCELLED), shared(12))
	d.take()
	d.take()
	d.quiet()
	if m := hubSays[*protocol.Drained](d); m.Bytes != 100 {
		t.Fatalf("what was dropped was not given back: %+v", m)
	}
}

// TestRightsTakenFromOneOfABatch: the watch whose rights are gone ends right before the
// events that come after, and the other watches of the batch get them.
func TestRightsTakenFromOneOfABatch(t *testing.T) {
	g := newGuarded(t)
	g.change(g.grant("writer", "b/", &messages.Grant{Read: true}))
	g.hello("ann", nil)
	g.welcome()
	g.startWatch(1, "a/")
	g.startWatch(2, "b/")
	g.startWatch(3, "a/")
	both := func(revision uint64) {
		g.core.deliver(&protocol.Deliver{Items: []protocol.Item{{
			Batch:    messages.NewSharedBatch([]*messages.Event{{Revision: revision}}, protocol.EndOf(revision).Proto(), true, false),
			WatchIDs: []uint64{1, 2, 3}, Bytes: 10,
		}}})
		g.run()
	}
	both(5)
	if b := g.take().GetWatchBatch(); len(b.GetAlsoWatchIds()) != 2 {
		t.Fatalf("got %v", b)
	}
	g.revoke("writer", "b/", &messages.Grant{Read: true})
	both(6)
	if e := g.take().GetWatchEnd(); e.GetWatchId() != 2 || e.GetReason().GetCode() != messages.Code_CODE_PERMISSION_DENIED || e.GetResume().GetRevision() != 5 {
		t.Fatalf("got %v", e)
	}
	if b := g.take().GetWatchBatch(); b.GetWatchId() != 1 || !slices.Equal(b.GetAlsoWatchIds(), []uint64{3}) || b.GetTo().GetRevision() != 6 {
		t.Fatalf("got %v", b)
	}
}
