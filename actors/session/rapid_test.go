package session

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

// traffic is a desk at which everything happens in any order.
type traffic struct {
	*desk
	answered map[uint64]int
	taken    int
	live     map[uint64]bool // watches that the client believes in
	hubSeen  int
	starts   []*protocol.StartWatch
	hubLive  map[uint64]bool
}

// TestEveryCallIsAnsweredOnce: whatever the client asks, and however replica, apply
// and hub answer it, or do not.
func TestEveryCallIsAnsweredOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDesk(t, Limits{CallsPerConnection: 20, BytesPerConnection: 2_000})
		x := &traffic{desk: d, taken: len(d.sent), answered: map[uint64]int{}, live: map[uint64]bool{}, hubLive: map[uint64]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"frame":   x.frame,
			"write":   x.answerWrites,
			"barrier": x.answerBarrier,
			"view":    x.answerView,
			"hub":     x.answerHub,
			"events":  x.events,
			"client":  x.controls,
			"reads": func(*rapid.T) {
				d.backlog, d.low = 0, -1
				d.written++
				d.core.wrote(0)
				d.run()
			},
			"tick": func(t *rapid.T) { d.alive(int64(rapid.SampledFrom([]int{250, 250, 3_000}).Draw(t, "ms"))) },
			"":     func(t *rapid.T) { x.check(t) },
		})
		if rapid.Bool().Draw(t, "drain") {
			d.core.drain()
			d.run()
		}
		for i := 0; d.core.calls > 0; i++ {
			if i > 1_000 {
				t.Fatalf("%d calls are never answered", d.core.calls)
			}
			d.backlog = 0
			d.core.wrote(0)
			d.answer()
			x.answerBarrier(nil)
			x.answerView(nil)
			x.answerHub(nil)
			d.alive(1_000)
			x.check(t)
		}
		x.check(t)
		for call := range d.nextCall {
			if x.answered[call] != 1 {
				t.Fatalf("call %d was answered %d times", call, x.answered[call])
			}
		}
		if d.adm.calls.Load() != 0 || d.adm.bytes.Load() != 0 || d.core.bytes != 0 {
			t.Fatalf("the books show %d calls, %d and %d bytes", d.adm.calls.Load(), d.adm.bytes.Load(), d.core.bytes)
		}
	})
}

func (x *traffic) check(t *rapid.T) {
	for ; x.taken < len(x.sent); x.taken++ {
		m := x.sent[x.taken]
		for _, r := range m.GetReplies().GetReplies() {
			if r.Reply == nil || r.Call >= x.nextCall {
				t.Fatalf("answer %v", r)
			}
			x.answered[r.Call]++
			if w := r.GetWatch(); w != nil {
				if x.live[w.WatchId] {
					t.Fatalf("watch %d began twice", w.WatchId)
				}
				x.live[w.WatchId] = true
			}
		}
		if b := m.GetWatchBatch(); b != nil && !x.live[b.WatchId] {
			t.Fatalf("a batch outside the life of watch %d", b.WatchId)
		}
		if e := m.GetWatchEnd(); e != nil {
			if !x.live[e.WatchId] || e.Resume == nil {
				t.Fatalf("end %v", e)
			}
			delete(x.live, e.WatchId)
		}
	}
	for ; x.hubSeen < len(x.hub); x.hubSeen++ {
		switch m := x.hub[x.hubSeen].(type) {
		case *protocol.StartWatch:
			x.starts = append(x.starts, m)
		case *protocol.SessionClosed:
			clear(x.hubLive)
			x.starts = nil
		case *protocol.CancelWatch:
			x.finishStarts()
			if x.hubLive[m.WatchID] {
				delete(x.hubLive, m.WatchID)
				x.deliver(x.endOf(m.WatchID, 9, messages.Code_CODE_CANCELLED))
			}
		}
	}
}

func (x *traffic) finishStarts() {
	for len(x.starts) > 0 {
		x.startOne(false)
	}
}

func (x *traffic) startOne(refuse bool) {
	m := x.starts[0]
	x.starts = x.starts[1:]
	if refuse || x.hubLive[m.Request.WatchId] {
		x.deliver(protocol.Item{Refused: &protocol.Refused{Call: m.Call, Error: messages.NewError(messages.Code_CODE_COMPACTED, "x").Detail}})
		return
	}
	x.hubLive[m.Request.WatchId] = true
	x.deliver(x.started(m.Call, m.Request.WatchId, m.After.First()))
}

func (x *traffic) frame(t *rapid.T) {
	consistency := []messages.Consistency{linearizable, stale}
	op := rapid.Custom(func(t *rapid.T) *messages.Operation {
		switch rapid.IntRange(0, 6).Draw(t, "op") {
		case 0:
			return put("")
		case 1:
			return get(rapid.SampledFrom([]string{"k", "bad"}).Draw(t, "key"), rapid.SampledFrom(consistency).Draw(t, "consistency"),
				uint64(rapid.SampledFrom([]int{0, 5, 50}).Draw(t, "min")))
		case 2:
			return watchOp(&messages.WatchRequest{WatchId: uint64(rapid.IntRange(1, 5).Draw(t, "id")), FromRevision: 1})
		case 3:
			return watchOp(&messages.WatchRequest{WatchId: uint64(rapid.IntRange(1, 5).Draw(t, "id"))})
		}
		return put(string(make([]byte, rapid.IntRange(1, 300).Draw(t, "bytes"))))
	})
	x.ask(rapid.SliceOfN(op, 1, 8).Draw(t, "operations")...)
}

func (x *traffic) answerWrites(t *rapid.T) {
	if len(x.proposed) == 0 {
		t.Skip()
	}
	i := rapid.IntRange(0, len(x.proposed)-1).Draw(t, "proposal")
	p := x.proposed[i]
	// In parts, and parts of it more than once.
	from := rapid.IntRange(0, len(p.Commands)-1).Draw(t, "from")
	m := &messages.Proposed{RequestId: p.RequestId, First: uint32(from)}
	for range p.Commands[from:] {
		r := &messages.Result{Revision: 1}
		if rapid.Bool().Draw(t, "fails") {
			r.Error = messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "x").Detail
		}
		m.Results = append(m.Results, r)
	}
	x.core.proposed(m)
	if from == 0 {
		x.proposed = slices.Delete(x.proposed, i, i+1)
	}
	x.run()
}

func (x *traffic) answerBarrier(t *rapid.T) {
	if len(x.barriers) == 0 {
		return
	}
	m := &messages.BarrierReached{RequestId: x.barriers[0].RequestId}
	x.barriers = x.barriers[1:]
	if t != nil && rapid.Bool().Draw(t, "fails") {
		m.Error = messages.NewError(messages.Code_CODE_NO_LEADER, "x").Detail
	}
	x.core.barrierReached(m)
	x.run()
}

func (x *traffic) answerView(t *rapid.T) {
	if len(x.views) == 0 {
		return
	}
	g := x.views[0]
	x.views = x.views[1:]
	switch {
	case t != nil && rapid.IntRange(0, 4).Draw(t, "none") == 0:
		x.core.gotNoView(g.RequestID)
	case t != nil && rapid.Bool().Draw(t, "old"):
		x.core.gotView(g.RequestID, &page{revision: 3, answer: 10})
	default:
		x.core.gotView(g.RequestID, &page{revision: 9, answer: 10})
	}
	x.run()
}

func (x *traffic) answerHub(t *rapid.T) {
	if len(x.starts) > 0 {
		x.startOne(t != nil && rapid.Bool().Draw(t, "refuse"))
	}
}

func (x *traffic) events(t *rapid.T) {
	id := uint64(rapid.IntRange(1, 5).Draw(t, "id"))
	if !x.hubLive[id] {
		t.Skip()
	}
	if rapid.IntRange(0, 3).Draw(t, "end") == 0 {
		delete(x.hubLive, id)
		x.deliver(x.endOf(id, 9, messages.Code_CODE_SLOW_CONSUMER))
		return
	}
	x.deliver(batchOf(id, 9))
}

func (x *traffic) controls(t *rapid.T) {
	id := uint64(rapid.IntRange(1, 6).Draw(t, "id"))
	if rapid.Bool().Draw(t, "cancel") {
		x.say(&messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: id}}})
	} else {
		x.say(&messages.ClientMessage{Message: &messages.ClientMessage_WatchCredit{WatchCredit: &messages.WatchCredit{WatchId: id, Events: 1, Bytes: ^uint32(0)}}})
	}
}

// FuzzClientMessages feeds a session what a hostile client may send. It must refuse
// or answer it; nothing may panic, and the books must balance.
func FuzzClientMessages(f *testing.F) {
	add := func(ms ...*messages.ClientMessage) {
		var b []byte
		for _, m := range ms {
			one, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			b = append(b, byte(len(one)>>8), byte(len(one)))
			b = append(b, one...)
		}
		f.Add(b)
	}
	add(frame(42, 0, put("k"), get("k", stale, 0), get("k", linearizable, 5)), frame(42, 3, watchOp(&messages.WatchRequest{WatchId: 1})))
	add(frame(42, 0, watchOp(&messages.WatchRequest{WatchId: 1, FromRevision: 3, List: &messages.ListRequest{}})),
		&messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: 1}}})
	add(hello(&messages.ClientHello{Protocol: 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDesk(t, Limits{})
		for len(b) >= 2 && !d.closing {
			n := min(int(b[0])<<8|int(b[1]), len(b)-2)
			m := new(messages.ClientMessage)
			if err := proto.Unmarshal(b[2:2+n], m); err == nil {
				d.say(m)
			}
			b = b[2+n:]
		}
		d.answer()
		for len(d.barriers) > 0 && !d.closing {
			d.read(&page{revision: 5})
		}
		for len(d.views) > 0 && !d.closing {
			d.show(&page{revision: 5})
		}
		d.core.stopped()
		if d.adm.calls.Load() != 0 || d.adm.bytes.Load() != 0 {
			t.Fatalf("the books show %d calls, %d bytes", d.adm.calls.Load(), d.adm.bytes.Load())
		}
	})
}
