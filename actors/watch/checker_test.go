package watch

import (
	"slices"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// checker holds one watch to its promises, batch by batch:
//
//   - ordered and unique: each event is after the one before;
//   - gap-free: between two positions that a batch names, the events are exactly
//     those of the model that the watch selects;
//   - atomic by revision: a batch is of one revision, and one that is not its last
//     is followed by another of it, or by the end;
//   - honest progress: a position is never beyond what has been applied, nor back;
//   - within its credit: never an event more; bytes by the last event at most;
//   - ready once, and not before it has caught up;
//   - ended once, with a reason and a place from which nothing is missing.
type checker struct {
	w       *world
	session uint64
	request *messages.WatchRequest

	started *protocol.Started
	refused *messages.ErrorDetail
	end     *messages.WatchEnd
	closed  bool // its session is
	at      protocol.Position
	open    uint64 // a revision of which a fragment came, but not the last
	events  []*messages.Event
	batches int
	ready   bool
	readyAt uint64

	creditEvents, creditBytes int64
}

func newChecker(w *world, session uint64, r *messages.WatchRequest, after protocol.Position) *checker {
	return &checker{
		w: w, session: session, request: r, at: after,
		creditEvents: orDefault(r.CreditEvents, messages.WatchCreditEventsDefault),
		creditBytes:  orDefault(r.CreditBytes, messages.WatchCreditBytesDefault),
	}
}

func (c *checker) onStarted(m *protocol.Started) {
	c.started = m
	if m.From != c.at.First() {
		c.w.t.Fatalf("started from %d after %v", m.From, c.at)
	}
	c.readyAt = m.Current
}

// selected are the model's events for this watch after one place and up to another.
func (c *checker) selected(after, to protocol.Position) []store.Event {
	var out []store.Event
	for _, e := range c.w.events[indexAfter(c.w.events, after):indexAfter(c.w.events, to)] {
		typ := messages.EventType_EVENT_TYPE_PUT
		if e.Rec.Tombstone() {
			typ = messages.EventType_EVENT_TYPE_DELETE
		}
		if selects(c.request.Selector, e.Rec.Key()) && (len(c.request.Types) == 0 || slices.Contains(c.request.Types, typ)) {
			out = append(out, e)
		}
	}
	return out
}

func (c *checker) onBatch(b *messages.WatchBatch) {
	t := c.w.t
	t.Helper()
	to := protocol.PositionOf(b.To)
	switch {
	case c.started == nil || c.end != nil:
		t.Fatalf("a batch outside the life of the watch: %v", b)
	case to.Before(c.at):
		t.Fatalf("the place went back from %v to %v", c.at, to)
	case to.Complete() > c.w.revision:
		t.Fatalf("told of %v at revision %d", to, c.w.revision)
	case len(b.Events) > messages.WatchFragmentEventsMax:
		t.Fatalf("a fragment of %d events", len(b.Events))
	case c.open != 0 && len(b.Events) > 0 && b.Events[0].Revision != c.open:
		t.Fatalf("revision %d began before %d was complete", b.Events[0].Revision, c.open)
	}
	want := c.selected(c.at, to)
	if len(want) != len(b.Events) {
		t.Fatalf("from %v to %v: %d events, want %d", c.at, to, len(b.Events), len(want))
	}
	bytes := int64(0)
	for i, e := range b.Events {
		if !c.is(e, want[i]) {
			t.Fatalf("event %s, want %s", text(e), text(want[i].Proto(false, false)))
		}
		if e.Revision != b.Events[0].Revision {
			t.Fatalf("a batch of revisions %d and %d", b.Events[0].Revision, e.Revision)
		}
		if c.creditEvents <= 0 || c.creditBytes <= 0 {
			t.Fatalf("event %s without credit", text(e))
		}
		c.creditEvents--
		c.creditBytes -= messages.CreditBytes(e)
		bytes += messages.CreditBytes(e)
	}
	if len(b.Events) > 1 && bytes > messages.WatchFragmentBytesMax {
		t.Fatalf("a fragment of %d bytes", bytes)
	}
	if n := len(b.Events); n > 0 {
		last := b.Events[n-1]
		switch whole := protocol.EndOf(last.Revision); {
		case b.Last && to != whole:
			t.Fatalf("the last fragment of %d is to %v", last.Revision, to)
		case !b.Last && to != protocol.Position{Revision: last.Revision, Op: last.OpIndex}:
			t.Fatalf("a fragment up to %s is to %v", text(last), to)
		case !b.Last && len(c.selected(to, whole)) == 0:
			t.Fatalf("nothing follows %s, but its fragment is not the last", text(last))
		}
		c.open = 0
		if !b.Last {
			c.open = last.Revision
		}
	}
	if b.Ready {
		if c.ready || to.Complete() < c.readyAt {
			t.Fatalf("ready at %v, again %v, to reach %d", to, c.ready, c.readyAt)
		}
		c.ready = true
	}
	c.at = to
	c.batches++
	c.events = append(c.events, b.Events...)
}

// is reports whether e is the model's event as this watch asked for it.
func (c *checker) is(e *messages.Event, want store.Event) bool {
	deleted := e.Type == messages.EventType_EVENT_TYPE_DELETE
	if e.Revision != want.Rec.Mod() || e.OpIndex != want.Rec.OpIndex() || e.Cause != want.Rec.Cause() ||
		deleted != want.Rec.Tombstone() || string(e.Record.Key) != want.Rec.Key() {
		return false
	}
	if e.Prev != nil && (!c.request.PrevKv || string(e.Prev.Key) != want.Rec.Key() || e.Prev.ModRevision != want.Prev.Mod()) {
		return false
	}
	if c.request.KeysOnly {
		return len(e.Record.Value) == 0 && len(e.Prev.GetValue()) == 0
	}
	return string(e.Record.Value) == want.Rec.Value()
}

func (c *checker) onEnd(m *messages.WatchEnd) {
	t := c.w.t
	t.Helper()
	resume := protocol.PositionOf(m.Resume)
	if m.Reason.GetCode() == messages.Code_CODE_OK {
		t.Fatalf("an end without a reason: %v", m)
	}
	if resume.Before(c.at) || len(c.selected(c.at, resume)) > 0 {
		t.Fatalf("resuming at %v would miss events after %v", resume, c.at)
	}
	c.end = m
}

// caughtUp fails unless the watch has all that there is for it.
func (c *checker) caughtUp() {
	t := c.w.t
	t.Helper()
	if missing := c.selected(c.at, protocol.EndOf(c.w.revision)); len(missing) > 0 {
		t.Fatalf("watch %d.%d stands at %v; %d events are missing, the first is %v",
			c.session, c.request.WatchId, c.at, len(missing), placeOf(missing[0]))
	}
	if c.open != 0 {
		t.Fatalf("revision %d was never completed", c.open)
	}
}

func (c *checker) texts() []string {
	var out []string
	for _, e := range c.events {
		out = append(out, text(e))
	}
	return out
}

func (c *checker) endCode() messages.Code {
	if c.end == nil {
		return messages.Code_CODE_OK
	}
	return c.end.Reason.Code
}
