package watch

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// world is the model: every event there ever was, and the hub under test with a
// checker for each watch. It plays apply and the sessions.
type world struct {
	t        rapid.TB
	hub      *Hub
	events   []store.Event // never forgotten, whatever is compacted
	revision uint64
	compact  uint64
	watches  map[[2]uint64]*checker // by session and id
	calls    map[uint64]*checker    // StartWatches without an answer
	lastCall uint64
	inFlight map[uint64]int64 // bytes of each session's window
	nowMs    int64
	reads    bool // new watches are of sessions that are known to read
	ended    []*checker
	state    func() ChangeLog // instead of the model's own view
}

func newWorld(t rapid.TB, limits Limits) *world {
	return &world{
		t: t, hub: NewHub(limits), watches: make(map[[2]uint64]*checker), calls: make(map[uint64]*checker),
		inFlight: make(map[uint64]int64), nowMs: 1_000,
	}
}

// frozen is a view of the world.
type frozen struct {
	events            []store.Event
	revision, compact uint64
}

func (f *frozen) Revision() uint64        { return f.revision }
func (f *frozen) CompactRevision() uint64 { return f.compact }
func (f *frozen) Changes(after *messages.Position, fn func(store.Event) bool) error {
	at := protocol.PositionOf(after)
	if at.Complete() < f.compact {
		return messages.NewError(messages.Code_CODE_COMPACTED, "after %v, compacted %d", at, f.compact)
	}
	for _, e := range f.events[indexAfter(f.events, at):] {
		if !fn(e) {
			return nil
		}
	}
	return nil
}

// indexAfter returns the index of the first event after a position.
func indexAfter(events []store.Event, at protocol.Position) int {
	lo, hi := 0, len(events)
	for lo < hi {
		if mid := (lo + hi) / 2; at.Before(placeOf(events[mid])) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

func placeOf(e store.Event) protocol.Position {
	return protocol.Position{Revision: e.Rec.Mod(), Op: e.Rec.OpIndex()}
}

func (w *world) view() ChangeLog {
	if w.state != nil {
		return w.state()
	}
	return &frozen{w.events, w.revision, w.compact}
}

// write makes one revision of these changes: "k=v" puts, "k" deletes.
func (w *world) write(changes ...string) []store.Event {
	w.revision++
	from := len(w.events)
	for i, c := range changes {
		w.events = append(w.events, event(c, w.revision, uint32(i)))
	}
	return w.events[from:len(w.events):len(w.events)]
}

func event(change string, revision uint64, op uint32) store.Event {
	key, value, put := strings.Cut(change, "=")
	f := store.Fields{Key: key, Create: revision, Mod: revision, OpIndex: op}
	if put {
		f.Value, f.Version, f.Cause = value, 1, messages.EventCause_EVENT_CAUSE_WRITTEN
	} else {
		f.Tombstone, f.Cause = true, messages.EventCause_EVENT_CAUSE_DELETED
	}
	return store.Event{Rec: store.Make(f)}
}

// commit writes one revision and lets the hub know.
func (w *world) commit(changes ...string) {
	w.t.Helper()
	w.committed(w.write(changes...))
}

// commitCause commits the end of a key, for this reason.
func (w *world) commitCause(key string, cause messages.EventCause) {
	w.t.Helper()
	w.revision++
	w.events = append(w.events, store.Event{Rec: store.Make(store.Fields{
		Key: key, Mod: w.revision, Create: w.revision, Tombstone: true, Cause: cause,
	})})
	w.committed(w.events[len(w.events)-1:])
}

func (w *world) committed(events []store.Event) {
	w.t.Helper()
	w.hub.Committed(events, w.revision, w.compact)
	w.collect()
}

func (w *world) compactTo(c uint64) {
	w.t.Helper()
	w.compact = c
	w.committed(nil)
}

// install replaces the store under the hub.
func (w *world) install() {
	w.t.Helper()
	w.hub.Installed(w.view())
	w.collect()
}

// settle answers what the hub asks for until it asks no more.
func (w *world) settle() {
	w.t.Helper()
	for i := 0; w.hub.NeedsView() || w.hub.HasReplay(); i++ {
		if i > 100_000 {
			w.t.Fatal("the hub does not come to rest")
		}
		w.step()
	}
}

func (w *world) step() {
	w.t.Helper()
	if w.hub.NeedsView() {
		w.hub.ViewArrived(w.view())
	} else {
		w.hub.Replay()
	}
	w.collect()
}

func (w *world) tick(ms int64) {
	w.t.Helper()
	for ms > 0 {
		step := min(ms, 500)
		w.nowMs += step
		ms -= step
		w.hub.Tick(w.nowMs)
		w.collect()
	}
}

// watch starts one; the checker says what came of it.
func (w *world) watch(session uint64, r *messages.WatchRequest, after protocol.Position) *checker {
	w.t.Helper()
	w.lastCall++
	c := newChecker(w, session, r, after)
	w.calls[w.lastCall] = c
	w.hub.Start(protocol.StartWatch{Session: session, Call: w.lastCall, Request: r, After: after, Reads: w.reads})
	w.collect()
	return c
}

func (w *world) grant(c *checker, events, bytes uint32) {
	w.t.Helper()
	if c.end == nil {
		c.creditEvents = min(c.creditEvents+int64(events), messages.WatchCreditEventsMax)
		c.creditBytes = min(c.creditBytes+int64(bytes), messages.WatchCreditBytesMax)
	}
	w.hub.Grant(c.session, c.request.WatchId, events, bytes)
	w.collect()
}

// drain gives a session's whole window back.
func (w *world) drain(session uint64) {
	w.t.Helper()
	n := w.inFlight[session]
	w.inFlight[session] = 0
	w.hub.Drained(session, n)
	w.collect()
}

func (w *world) closeSession(session uint64) {
	w.t.Helper()
	w.hub.CloseSession(session)
	for k, c := range w.watches {
		if k[0] == session {
			c.closed = true
			delete(w.watches, k)
		}
	}
	for call, c := range w.calls {
		if c.session == session {
			c.closed = true
			delete(w.calls, call)
		}
	}
	delete(w.inFlight, session)
	w.collect()
}

// collect hands what the hub has sent to the checkers.
func (w *world) collect() {
	w.t.Helper()
	for _, o := range w.hub.TakeOutput() {
		for _, item := range o.Items {
			switch {
			case item.Started != nil:
				c := w.calls[item.Started.Call]
				delete(w.calls, item.Started.Call)
				w.watches[[2]uint64{o.Session, item.Started.WatchID}] = c
				c.onStarted(item.Started)
			case item.Refused != nil:
				c := w.calls[item.Refused.Call]
				delete(w.calls, item.Refused.Call)
				c.refused = item.Refused.Error
			case item.Batch != nil:
				w.inFlight[o.Session] += item.Bytes
				for _, id := range item.WatchIDs {
					w.find(o.Session, id).onBatch(item.Batch.For([]uint64{id}))
				}
			case item.End != nil:
				c := w.find(o.Session, item.End.WatchId)
				delete(w.watches, [2]uint64{o.Session, item.End.WatchId})
				c.onEnd(item.End)
				w.ended = append(w.ended, c)
			}
		}
	}
	for s, n := range w.inFlight {
		// One event, and the overhead of one batch a watch, may pass the window.
		if n > protocol.SessionWindowBytes+(17<<20) {
			w.t.Fatalf("session %d has %d bytes on the way", s, n)
		}
	}
}

// all returns the live watches in a fixed order.
func (w *world) all() []*checker {
	var out []*checker
	for _, c := range w.watches {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *checker) int {
		if a.session != b.session {
			return int(a.session) - int(b.session)
		}
		return int(a.request.WatchId) - int(b.request.WatchId)
	})
	return out
}

func (w *world) find(session, id uint64) *checker {
	w.t.Helper()
	c := w.watches[[2]uint64{session, id}]
	if c == nil {
		w.t.Fatalf("session %d was told of watch %d, which it does not have", session, id)
	}
	return c
}

func prefix(p string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(p)}}
}

func exact(k string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Key{Key: []byte(k)}}
}

func between(lo, hi string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte(lo), End: []byte(hi)}}}
}

func selects(s *messages.Selector, key string) bool {
	switch by := s.By.(type) {
	case *messages.Selector_Key:
		return string(by.Key) == key
	case *messages.Selector_Prefix:
		return strings.HasPrefix(key, string(by.Prefix))
	case *messages.Selector_Range:
		return key >= string(by.Range.Start) && (len(by.Range.End) == 0 || key < string(by.Range.End))
	}
	panic("no selector")
}

func text(e *messages.Event) string {
	if e.Type == messages.EventType_EVENT_TYPE_DELETE {
		return fmt.Sprintf("%d.%d %s deleted", e.Revision, e.OpIndex, e.Record.Key)
	}
	return fmt.Sprintf("%d.%d %s=%s", e.Revision, e.OpIndex, e.Record.Key, e.Record.Value)
}
