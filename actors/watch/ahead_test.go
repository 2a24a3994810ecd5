package watch

import (
	"testing"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

// generous is a watch of everything that grants all the credit there is.
func generous(id uint64) *messages.WatchRequest {
	r := all(id)
	r.CreditEvents, r.CreditBytes = messages.WatchCreditEventsMax, messages.WatchCreditBytesMax
	return r
}

// TestWhoNeverReadsIsSentLittle: a session that grants all credit there is, and whose stream
// takes what it is given, is sent AheadMax batches and then AheadPerSecond until it has
// shown that somebody reads: by credit that comes back, or by more than streams hold. One
// that is known to read is sent all.
func TestWhoNeverReadsIsSentLittle(t *testing.T) {
	w := known(t, Limits{})
	w.tick(500)
	unread := w.watch(1, generous(1), protocol.EndOf(0))
	returning := w.watch(2, generous(1), protocol.EndOf(0))
	w.reads = true
	reading := w.watch(3, generous(1), protocol.EndOf(0))
	commits := func(n int) {
		t.Helper()
		for range n {
			w.commit("k=v")
			for session := range uint64(3) {
				w.drain(session + 1)
			}
		}
		w.settle()
	}
	commits(protocol.AheadMax + 20*protocol.AheadPerSecond)
	if n := len(unread.events); n != protocol.AheadMax {
		t.Fatalf("%d events to who never reads, want %d", n, protocol.AheadMax)
	}
	reading.caughtUp()
	w.grant(returning, 1, 1)
	w.settle()
	returning.caughtUp()
	for range 10 {
		w.tick(1_000)
		w.settle()
	}
	if n := len(unread.events) - protocol.AheadMax; n > 10*protocol.AheadPerSecond || n < 9*protocol.AheadPerSecond {
		t.Fatalf("%d events in ten seconds to who never reads, want %d a second", n, protocol.AheadPerSecond)
	}
	w.hub.Drained(1, protocol.AheadBytesMax)
	w.collect()
	w.settle()
	unread.caughtUp()
	commits(3 * protocol.AheadMax)
	for _, c := range w.all() {
		c.caughtUp()
	}
}

// TestRareEventsAreNotHeldBack: a session that has shown nothing is sent what comes at a
// rate that costs nobody anything, for however long, at once.
func TestRareEventsAreNotHeldBack(t *testing.T) {
	w := known(t, Limits{})
	w.tick(500)
	c := w.watch(1, generous(1), protocol.EndOf(0))
	for i := range 3 * protocol.AheadMax {
		w.commit("k=v")
		w.drain(1)
		if len(c.events) != i+1 {
			t.Fatalf("%d events after %d", len(c.events), i+1)
		}
		if i%(protocol.AheadPerSecond/2) == 0 {
			w.tick(1_000)
		}
	}
	c.caughtUp()
}
