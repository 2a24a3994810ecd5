package watch

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

// TestHubKeepsItsPromises drives the hub with whatever can happen to it, in any
// order, and lets every watch's checker look on. In the end all obstacles are taken
// away, and every watch that lives must have caught up.
func TestHubKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Limits{
			WatchersMax: 12, WatchersPerSessionMax: 6,
			ReplayEventsMax: rapid.SampledFrom([]int{1, 7, 4096}).Draw(t, "replayEvents"),
		})
		w.revision = uint64(rapid.SampledFrom([]int{0, 40}).Draw(t, "revision"))
		w.compact = w.revision
		m := &machine{w: w}
		t.Repeat(map[string]func(*rapid.T){
			"commit":  m.commit,
			"write":   m.batch,
			"large":   m.large,
			"compact": m.compactSome,
			"install": m.install,
			"watch":   m.watch,
			"grant":   m.grant,
			"drain":   m.drain,
			"cancel":  m.cancel,
			"leave":   m.leave,
			"step":    func(*rapid.T) { w.step() },
			"settle":  func(*rapid.T) { w.settle() },
			"tick":    func(t *rapid.T) { w.tick(int64(rapid.SampledFrom([]int{500, 500, 500, 12_000}).Draw(t, "ms"))) },
			"leader":  func(t *rapid.T) { w.hub.LeaderChanged(uint64(rapid.IntRange(0, 2).Draw(t, "leader"))) },
			"":        func(*rapid.T) { w.check() },
		})
		w.finish()
	})
}

// check looks at the hub's own books.
func (w *world) check() {
	if n := len(w.watches); w.hub.known && n != w.hub.Watchers() {
		w.t.Fatalf("%d watches, the hub has %d", n, w.hub.Watchers())
	}
	if live, fed := w.hub.live.size, len(w.hub.replay.watchers); w.hub.replay.index.size != fed || live+fed > len(w.hub.all) {
		w.t.Fatalf("%d live and %d fed of %d", live, fed, len(w.hub.all))
	}
	if w.hub.replay.idle() && w.hub.replay.log != nil {
		w.t.Fatalf("a view is held for nobody")
	}
	after, active := w.hub.LowWater()
	for _, c := range w.watches {
		if c.started != nil && c.at.Complete() < w.compact && c.end == nil && len(c.selected(c.at, protocol.EndOf(w.compact))) > 0 && w.hub.compacted == w.compact {
			w.t.Fatalf("watch %d.%d stands at %v, revision %d is compacted, and it was not told", c.session, c.request.WatchId, c.at, w.compact)
		}
	}
	if active && after > w.revision {
		w.t.Fatalf("low water %d at revision %d", after, w.revision)
	}
}

// finish gives everybody all it needs and expects everything delivered.
func (w *world) finish() {
	w.hub.LeaderChanged(1)
	w.settle()
	// A session's window lets through a few large events at a time.
	for range 100 {
		for _, c := range w.all() {
			w.grant(c, messages.WatchCreditEventsMax, messages.WatchCreditBytesMax)
		}
		for s := range uint64(4) {
			w.drain(s)
		}
		w.settle()
	}
	for _, c := range w.watches {
		c.caughtUp()
	}
	w.tick(20_000) // every progress is due, and no limit is passed
	for _, c := range w.watches {
		if head := protocol.EndOf(w.revision); c.at.Before(head) || !c.at.Before(protocol.Position{Revision: w.revision + 1}) && c.batches > 0 && c.at.Complete() > w.revision {
			w.t.Fatalf("watch %d.%d was told of %v only, the head is %v", c.session, c.request.WatchId, c.at, head)
		}
		if c.started.From <= w.revision+1 && !c.ready {
			w.t.Fatalf("watch %d.%d was never ready", c.session, c.request.WatchId)
		}
	}
	for s := range uint64(4) {
		w.closeSession(s)
	}
	if h := w.hub; h.Watchers() != 0 || h.live.size != 0 || !h.replay.idle() || h.live.ranges != nil || len(h.live.exact)+len(h.live.prefix) != 0 ||
		len(h.clients) != 0 || len(h.unready) != 0 || h.HasReplay() {
		w.t.Fatalf("something was left behind: %+v", h)
	}
}

type machine struct{ w *world }

var keyGen = rapid.Custom(func(t *rapid.T) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 3, -1).Draw(t, "key")
})

func changesGen(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		k := keyGen.Draw(t, "k")
		if rapid.Bool().Draw(t, "delete") {
			return k
		}
		return k + "=" + strings.Repeat("v", rapid.IntRange(0, 5).Draw(t, "bytes"))
	}), 1, 5).Draw(t, "changes")
}

func (m *machine) commit(t *rapid.T) { m.w.commit(changesGen(t)...) }

// batch commits several revisions at once, and may compact.
func (m *machine) batch(t *rapid.T) {
	from := len(m.w.events)
	for range rapid.IntRange(2, 5).Draw(t, "revisions") {
		m.w.write(changesGen(t)...)
	}
	if rapid.Bool().Draw(t, "compact") {
		m.w.compact = m.compaction(t)
	}
	m.w.committed(m.w.events[from:len(m.w.events):len(m.w.events)])
}

// large commits a revision that takes several fragments, by number or by size.
func (m *machine) large(t *rapid.T) {
	n, value := 1_001+rapid.IntRange(0, 1_500).Draw(t, "events"), "v"
	if rapid.Bool().Draw(t, "bytes") {
		n, value = 5, large
	}
	changes := make([]string, n)
	for i := range changes {
		changes[i] = fmt.Sprintf("a%d=%s", i%3, value)
	}
	m.w.commit(changes...)
}

var large = strings.Repeat("x", 700<<10)

func (m *machine) compaction(t *rapid.T) uint64 {
	return uint64(rapid.IntRange(int(m.w.compact), int(m.w.revision)).Draw(t, "compact"))
}

func (m *machine) compactSome(t *rapid.T) { m.w.compactTo(m.compaction(t)) }

// install replaces the store: revisions come that were never committed here.
func (m *machine) install(t *rapid.T) {
	for range rapid.IntRange(0, 5).Draw(t, "revisions") {
		m.w.write(changesGen(t)...)
	}
	if rapid.Bool().Draw(t, "compact") {
		m.w.compact = m.compaction(t)
	}
	if rapid.Bool().Draw(t, "told") {
		m.w.install()
	} else {
		// Nobody says so: the gap before the next commit must.
		m.w.committed(m.w.write(changesGen(t)...))
	}
}

func (m *machine) watch(t *rapid.T) {
	w := m.w
	selector := rapid.OneOf(
		rapid.Map(keyGen, exact),
		rapid.Map(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 2, -1), prefix),
		rapid.Just(between("a", "b")), rapid.Just(between("ab", "")), rapid.Just(between("", "bb")),
	).Draw(t, "selector")
	r := &messages.WatchRequest{
		WatchId:      uint64(rapid.IntRange(1, 8).Draw(t, "id")),
		Selector:     selector,
		PrevKv:       rapid.Bool().Draw(t, "prev"),
		KeysOnly:     rapid.Bool().Draw(t, "keysOnly"),
		CreditEvents: uint32(rapid.SampledFrom([]int{0, 1, 3, 100}).Draw(t, "creditEvents")),
		CreditBytes:  uint32(rapid.SampledFrom([]int{0, 1, 20, 1 << 20}).Draw(t, "creditBytes")),
		Types: rapid.SampledFrom([][]messages.EventType{
			nil, {messages.EventType_EVENT_TYPE_PUT}, {messages.EventType_EVENT_TYPE_DELETE},
		}).Draw(t, "types"),
	}
	after := protocol.EndOf(w.revision)
	switch rapid.IntRange(0, 3).Draw(t, "from") {
	case 1:
		after = protocol.EndOf(uint64(rapid.IntRange(0, int(w.revision)).Draw(t, "past")))
	case 2:
		after = protocol.EndOf(w.revision + uint64(rapid.IntRange(1, 5).Draw(t, "future")))
	case 3:
		if n := len(w.events); n > 0 {
			after = placeOf(w.events[rapid.IntRange(0, n-1).Draw(t, "after")])
		}
	}
	session := uint64(rapid.IntRange(0, 3).Draw(t, "session"))
	live := w.watches[[2]uint64{session, r.WatchId}]
	c := w.watch(session, r, after)
	if live != nil && c.refused.GetCode() != messages.Code_CODE_WATCH_EXISTS {
		t.Fatalf("a second watch %d was answered %v", r.WatchId, c.refused)
	}
}

func (m *machine) any(t *rapid.T) *checker {
	all := m.w.all()
	if len(all) == 0 {
		t.Skip("no watch")
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "watch")]
}

func (m *machine) grant(t *rapid.T) {
	m.w.grant(m.any(t), uint32(rapid.SampledFrom([]int{0, 1, 5, 1_000}).Draw(t, "events")),
		uint32(rapid.SampledFrom([]int{0, 1, 50, 1 << 20}).Draw(t, "bytes")))
}

func (m *machine) drain(t *rapid.T) { m.w.drain(uint64(rapid.IntRange(0, 3).Draw(t, "session"))) }

func (m *machine) cancel(t *rapid.T) {
	c := m.any(t)
	m.w.hub.Cancel(c.session, c.request.WatchId)
	m.w.collect()
	if c.endCode() != messages.Code_CODE_CANCELLED {
		t.Fatalf("cancelled, and answered %v", c.end)
	}
}

func (m *machine) leave(t *rapid.T) {
	m.w.closeSession(uint64(rapid.IntRange(0, 3).Draw(t, "session")))
}
