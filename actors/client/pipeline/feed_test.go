package pipeline

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/concord-kv/concord/messages"
)

// fedTrace is a connected pipeline with n watches that have begun, of 10 events of credit.
func fedTrace(t *testing.T, n int) (*trace, []*Watch) {
	t.Helper()
	h := newTrace()
	if err := h.p.Connected(&messages.ServerHello{Protocol: 1, Incarnation: 1, ValueBytesMax: 1 << 20}, h.now); err != nil {
		t.Fatal(err)
	}
	watches := make([]*Watch, n)
	for i := range watches {
		w, err := h.p.OpenWatch(&messages.WatchRequest{FromRevision: 1, CreditEvents: 10}, false)
		if err != nil {
			t.Fatal(err)
		}
		watches[i] = w
	}
	var replies []*messages.Reply
	for m := h.p.Next(h.now); m != nil; m = h.p.Next(h.now) {
		for i := range m.GetFrame().GetOperations() {
			replies = append(replies, &messages.Reply{
				Call: m.GetFrame().FirstCall + uint64(i), Reply: &messages.Reply_Watch{Watch: &messages.WatchStarted{FromRevision: 1}},
			})
		}
	}
	h.p.Receive(&messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: &messages.Replies{Replies: replies}}}, h.now)
	for _, w := range watches {
		if w.Started == nil {
			t.Fatal("a watch has not begun")
		}
	}
	return h, watches
}

// event has the node send the event of a revision to watches, in one batch.
func (h *trace) event(revision uint64, to ...*Watch) {
	b := &messages.WatchBatch{
		WatchId: to[0].id, Last: true, To: &messages.Position{Revision: revision, OpIndex: messages.PositionOpIndexEnd},
		Events: []*messages.Event{{Type: messages.EventType_EVENT_TYPE_PUT, Revision: revision, Record: &messages.Record{Key: []byte("k")}}},
	}
	for _, w := range to[1:] {
		b.AlsoWatchIds = append(b.AlsoWatchIds, w.id)
	}
	h.p.Receive(&messages.ServerMessage{Message: &messages.ServerMessage_WatchBatch{WatchBatch: b}}, h.now)
}

// TestFeed: a batch for many watches wakes their feed once; each is handed it, shared, in
// order; one that was closed meanwhile is told so once and gets no more.
func TestFeed(t *testing.T) {
	h, watches := fedTrace(t, 4)
	f := NewFeed()
	got, ends := make([][]*messages.Event, 4), make([]int, 4)
	for i, w := range watches[:3] {
		h.p.Attach(w, f, func(b Batch, end error) {
			if end != nil {
				ends[i]++
				return
			}
			got[i] = append(got[i], b.Events...)
		})
	}
	round := func(want int) {
		t.Helper()
		fed := h.p.TakeFed(f, nil)
		for _, x := range fed {
			x.Handle(x.Batch, x.End)
		}
		if len(fed) != want {
			t.Fatalf("a round of %d, want %d", len(fed), want)
		}
	}
	h.event(1, watches...)
	woken := h.p.Woken()
	if len(woken) != 2 {
		t.Fatalf("%d were woken: the feed and the fourth watch are to be", len(woken))
	}
	for _, c := range woken {
		Signal(c)
	}
	select {
	case <-f.Changed:
	default:
		t.Fatal("the feed was not woken")
	}
	if b, ok, _ := h.p.Take(watches[3]); !ok || len(b.Events) != 1 {
		t.Fatal("the watch without a feed has nothing")
	}
	h.event(2, watches[0], watches[2])
	h.event(3, watches[1])
	if n := len(h.p.Woken()); n != 0 {
		t.Fatalf("%d were woken again", n)
	}
	h.p.CloseWatch(watches[2], messages.NewError(messages.Code_CODE_CANCELLED, "closed"))
	round(3) // revision 1
	if got[0][0] != got[1][0] {
		t.Fatal("the event was not shared")
	}
	h.event(4, watches[:3]...) // the third is over
	round(3)                   // revisions 2, 3, 2
	round(3)                   // 4, 4, and the end
	round(0)
	if ends[0]+ends[1] != 0 || ends[2] != 1 || f.Idle() {
		t.Fatalf("ends: %v", ends)
	}
	for i, want := range [][]uint64{{1, 2, 4}, {1, 3, 4}, {1, 2}} {
		if len(got[i]) != len(want) {
			t.Fatalf("watch %d got %v", i, got[i])
		}
		for j, e := range got[i] {
			if e.Revision != want[j] {
				t.Fatalf("watch %d got %v", i, got[i])
			}
		}
	}
	h.p.Close()
	round(2)
	if !f.Idle() || ends[0] != 1 || ends[1] != 1 || ends[2] != 1 {
		t.Fatalf("after the client's end: %v", ends)
	}
}

// TestFeedReturnsCredit: of each watch what was handed out, and of no other.
func TestFeedReturnsCredit(t *testing.T) {
	h, watches := fedTrace(t, 2)
	f := NewFeed()
	h.p.Attach(watches[0], f, func(Batch, error) {})
	for revision := range uint64(6) {
		h.event(revision+1, watches...)
	}
	if h.p.WatchesTalk() {
		t.Fatal("credit is returned that nobody has used")
	}
	for range 5 {
		h.p.TakeFed(f, nil)
	}
	m := h.p.Next(h.now)
	if c := m.GetWatchCredit(); c.GetWatchId() != watches[0].id || c.GetEvents() != 5 || c.GetBytes() != 5 {
		t.Fatalf("got %v", m)
	}
	if m := h.p.Next(h.now); m != nil {
		t.Fatalf("got %v", m)
	}
}

// TestAttachTakesWhatWaits: batches and the end that came before a watch was attached are
// handed out.
func TestAttachTakesWhatWaits(t *testing.T) {
	h, watches := fedTrace(t, 1)
	h.event(1, watches...)
	h.event(2, watches...)
	h.p.CloseWatch(watches[0], messages.NewError(messages.Code_CODE_CANCELLED, "closed"))
	h.p.Woken()
	f := NewFeed()
	var got []string
	h.p.Attach(watches[0], f, func(b Batch, end error) {
		if end != nil {
			got = append(got, "end")
			return
		}
		got = append(got, showBatch(b))
	})
	select {
	case <-f.Changed:
	default:
		t.Fatal("the feed was not woken")
	}
	for len(h.p.TakeFed(f, nil)) > 0 {
		got = append(got, "round")
	}
	if len(got) != 3 || !f.Idle() {
		t.Fatalf("got %v", got)
	}
}

// TestBatches holds the queue of batches to a slice.
func TestBatches(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var q batches
	var want []int
	for i := range 20_000 {
		// Longer and shorter in turn, so that it wraps, grows and runs dry.
		if r.IntN(100) < 30+40*(i/500%2) {
			q.push(Batch{events: i})
			want = append(want, i)
		} else if b, ok := q.pop(); ok != (len(want) > 0) || ok && b.events != want[0] {
			t.Fatalf("took %v, %v; want %v", b.events, ok, want)
		} else if ok {
			want = want[1:]
		}
		if q.len() != len(want) || cap(q.all) > 4*max(len(want), batchesKept, 1_000) {
			t.Fatalf("%d wait, want %d, room for %d", q.len(), len(want), cap(q.all))
		}
	}
}
