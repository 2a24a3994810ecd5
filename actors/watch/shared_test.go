package watch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// TestBatchIsMadeOnce: what many watches of many sessions are sent of a revision is one
// batch, and one item for each session; other variants have their own.
func TestBatchIsMadeOnce(t *testing.T) {
	h := NewHub(Limits{WatchersPerSessionMax: 1_000})
	h.ViewArrived(&frozen{})
	for session := range uint64(3) {
		for id := range uint64(100) {
			h.Start(protocol.StartWatch{Session: session + 1, After: protocol.EndOf(0), Request: &messages.WatchRequest{
				WatchId: id + 1, Selector: []*messages.Selector{prefix("k"), exact("k1"), between("k", "l")}[id%3],
			}})
		}
	}
	keys := all(500)
	keys.KeysOnly = true
	h.Start(protocol.StartWatch{Session: 1, After: protocol.EndOf(0), Request: keys})
	h.TakeOutput()
	var events []store.Event
	for op := range uint32(3) {
		events = append(events, store.Event{Rec: store.Make(store.Fields{
			Key: "k1", Value: fmt.Sprint(op), Create: 1, Mod: 1, Version: uint64(op) + 1, OpIndex: op,
		})})
	}
	h.Committed(events, 1, 0)
	var shared *messages.SharedBatch
	for _, o := range h.TakeOutput() {
		watches := 0
		for _, i := range o.Items {
			if slices.Contains(i.WatchIDs, 500) {
				if len(i.WatchIDs) != 1 || len(i.Batch.Events()[0].Record.Value) != 0 {
					t.Fatalf("keys only: %v", i.Batch.For(i.WatchIDs))
				}
				continue
			}
			if shared == nil {
				shared = i.Batch
			}
			if i.Batch != shared || len(i.Batch.Events()) != 3 {
				t.Fatalf("session %d has a batch of its own: %v", o.Session, i.Batch.For(i.WatchIDs))
			}
			watches += len(i.WatchIDs)
		}
		if len(o.Items) > 3 || watches != 100 {
			t.Fatalf("session %d got %d items for %d watches", o.Session, len(o.Items), watches)
		}
	}
}

// TestOneLaggardCostsNobodyTheirHistory: a watch further behind than what counts is left
// out of the report; the others are in it.
func TestOneLaggardCostsNobodyTheirHistory(t *testing.T) {
	w := known(t, Limits{})
	w.hub.ConsumerLag(100)
	stuck, slow := all(1), all(2)
	stuck.CreditEvents, slow.CreditEvents = 1, 150
	w.watch(1, stuck, protocol.EndOf(0))
	w.watch(1, slow, protocol.EndOf(0))
	for range 90 {
		w.commit("k=v")
	}
	if after, active := w.hub.LowWater(); after != 1 || !active {
		t.Fatalf("both count: %d %v", after, active)
	}
	for range 110 {
		w.commit("k=v")
	}
	if after, active := w.hub.LowWater(); after != 150 || !active {
		t.Fatalf("one is 199 behind: %d %v", after, active)
	}
	if behind, stalled, lag := w.hub.Backlog(); behind != 0 || stalled != 2 || lag != 199 {
		t.Fatalf("backlog %d %d %d", behind, stalled, lag)
	}
	for range 100 {
		w.commit("k=v")
	}
	if after, active := w.hub.LowWater(); active {
		t.Fatalf("nobody counts: %d", after)
	}
}

// TestCutOffNodeTakesNoWatches until it knows a leader again.
func TestCutOffNodeTakesNoWatches(t *testing.T) {
	w := known(t, Limits{})
	w.hub.LeaderChanged(0)
	w.tick(11_000)
	if c := w.watch(1, all(1), protocol.EndOf(0)); c.refused.GetCode() != messages.Code_CODE_NO_QUORUM {
		t.Fatalf("refused %v", c.refused)
	}
	w.hub.LeaderChanged(2)
	if c := w.watch(1, all(1), protocol.EndOf(0)); c.refused != nil {
		t.Fatal(c.refused)
	}
	w.tick(60_000)
}

// TestNoEventTwiceAtTheHandOver: a watch that goes from the change log to live at any
// moment between commits, of transactions that write a key twice, has every event once.
func TestNoEventTwiceAtTheHandOver(t *testing.T) {
	for at := range 12 {
		w := known(t, Limits{ReplayEventsMax: 2})
		for i := range 8 {
			w.commit(fmt.Sprintf("k=%d", i), fmt.Sprintf("k=%d again", i))
		}
		c := w.watch(1, all(1), protocol.EndOf(0))
		for range at {
			if w.hub.NeedsView() || w.hub.HasReplay() {
				w.step()
			}
		}
		w.commit("k=between", "k", "k=between again")
		w.settle()
		w.commit("k=last", "k=last again")
		c.caughtUp()
		if len(c.events) != 21 {
			t.Fatalf("after %d steps: %d events", at, len(c.events))
		}
	}
}

// TestWatchesAreLookedAtInTime: the wheel of a hub with every interval there is tells each
// watch of progress within two of its intervals, also after the node was suspended.
func TestWatchesAreLookedAtInTime(t *testing.T) {
	w := known(t, Limits{WatchersPerSessionMax: 1_000})
	var all []*checker
	for i, ms := range []uint32{100, 250, 1_000, 5_000, 7_000, 60_000, 600_000} {
		all = append(all, w.watch(1, &messages.WatchRequest{WatchId: uint64(i) + 1, Selector: prefix("nobody"), ProgressMs: ms}, protocol.EndOf(0)))
	}
	for _, c := range all {
		for round := range 3 {
			w.commit("other=1")
			head := protocol.EndOf(w.revision)
			w.tick(2*int64(c.request.ProgressMs) + 1_000)
			if c.at != head {
				t.Fatalf("every %d ms, round %d: at %v, not %v", c.request.ProgressMs, round, c.at, head)
			}
		}
	}
}
