package node_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// storming is a client without manners.
type storming struct {
	t    *testing.T
	s    transport.ClientStream
	call uint64
}

func storm(t *testing.T, d transport.Dialer, address string) *storming {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := d.Dial(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	return &storming{t: t, s: s, call: 1}
}

func (c *storming) hello() {
	c.send(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{
		Protocol: messages.ProtocolVersion, ClientEpoch: 9, ClientName: "storm",
	}}})
}

func (c *storming) send(m *messages.ClientMessage) {
	if err := c.s.Send(m); err != nil {
		c.t.Errorf("send: %v", err)
	}
}

func (c *storming) watch(requests ...*messages.WatchRequest) {
	f := &messages.Frame{ClientEpoch: 9, FirstCall: c.call}
	for _, r := range requests {
		f.Operations = append(f.Operations, &messages.Operation{Operation: &messages.Operation_Watch{Watch: r}})
	}
	c.call += uint64(len(requests))
	c.send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: f}})
}

func (c *storming) credit(id uint64, events, bytes uint32) {
	c.send(&messages.ClientMessage{Message: &messages.ClientMessage_WatchCredit{WatchCredit: &messages.WatchCredit{WatchId: id, Events: events, Bytes: bytes}}})
}

func (c *storming) cancel(id uint64) {
	c.send(&messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: id}}})
}

// answer reads until a call is answered.
func (c *storming) answer(call uint64) *messages.Reply {
	for {
		m, err := c.s.Recv()
		if err != nil {
			c.t.Fatalf("waiting for call %d: %v", call, err)
		}
		for _, r := range m.GetReplies().GetReplies() {
			if r.Call == call {
				return r
			}
		}
	}
}

func everything(id uint64) *messages.WatchRequest {
	return &messages.WatchRequest{WatchId: id, Selector: &messages.Selector{By: &messages.Selector_Prefix{}}, FromRevision: 1}
}

// TestBadWatchRequests: what makes no sense is refused with a code and the field at
// fault; the connection and its healthy watch do not mind.
func TestBadWatchRequests(t *testing.T) {
	n := start(t, node.Config{Dir: t.TempDir()})
	c := storm(t, n.Dialer(), "")
	defer c.s.Close()
	c.hello()
	c.watch(everything(1))
	key := func(k []byte) *messages.Selector { return &messages.Selector{By: &messages.Selector_Key{Key: k}} }
	with := func(f func(*messages.WatchRequest)) *messages.WatchRequest {
		r := everything(2)
		f(r)
		return r
	}
	for name, r := range map[string]*messages.WatchRequest{
		"nothing":            {},
		"no id":              {Selector: key([]byte("k"))},
		"no selector":        {WatchId: 2},
		"a selector of none": {WatchId: 2, Selector: &messages.Selector{}},
		"an empty key":       {WatchId: 2, Selector: key(nil)},
		"a long key":         {WatchId: 2, Selector: key(make([]byte, messages.KeyBytesMax+1))},
		"a range backwards":  {WatchId: 2, Selector: &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte("b"), End: []byte("a")}}}},
		"a negative start":   with(func(r *messages.WatchRequest) { r.FromRevision = math.MaxUint64 }),
		"two starts":         with(func(r *messages.WatchRequest) { r.After = &messages.Position{Revision: 1} }),
		"a list and a start": with(func(r *messages.WatchRequest) { r.List = &messages.ListRequest{} }),
		"credit in events":   with(func(r *messages.WatchRequest) { r.CreditEvents = math.MaxUint32 }),
		"credit in bytes":    with(func(r *messages.WatchRequest) { r.CreditBytes = math.MaxUint32 }),
		"progress":           with(func(r *messages.WatchRequest) { r.ProgressMs = 1 }),
		"types":              with(func(r *messages.WatchRequest) { r.Types = []messages.EventType{77} }),
	} {
		call := c.call
		c.watch(r)
		e := c.answer(call).GetError()
		if e.GetCode() != messages.Code_CODE_INVALID_ARGUMENT && e.GetCode() != messages.Code_CODE_TOO_LARGE || e.GetField() == "" ||
			e.GetOutcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Errorf("%s: %v", name, e)
		}
	}
	call := c.call
	c.watch(everything(1))
	if e := c.answer(call).GetError(); e.GetCode() != messages.Code_CODE_WATCH_EXISTS {
		t.Errorf("an id that lives: %v", e)
	}
	for range 1_000 { // credit beyond all measure, and for nobody
		c.credit(1, math.MaxUint32, math.MaxUint32)
		c.credit(99, math.MaxUint32, math.MaxUint32)
	}
	c.cancel(99)
	connect(t, n).put("/still", "here", 0)
	for {
		m, err := c.s.Recv()
		if err != nil {
			t.Fatalf("the healthy watch: %v", err)
		}
		if events := m.GetWatchBatch().GetEvents(); len(events) == 1 && string(events[0].Record.Key) == "/still" {
			return
		}
	}
}

// TestWatchStorms: thousands of creates and cancels, and clients that vanish in every
// phase of a watch, leave no goroutine, no actor, no watch and no connection.
func TestWatchStorms(t *testing.T) {
	n := start(t, node.Config{Dir: t.TempDir(), ClientAddress: "127.0.0.1:0"})
	w := connect(t, n)
	for i := range 50 {
		w.put(fmt.Sprint("/k/", i), "v", 0)
	}
	_, connections := n.Open()
	actors := n.Actors()
	goroutines := runtime.NumGoroutine()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	grpc := transport.NewGRPCDialer(transport.DialerOptions{})
	for round := range 60 {
		d, address := n.Dialer(), ""
		if round%2 == 0 {
			d, address = grpc, n.Addr()
		}
		c := storm(t, d, address)
		phase := round / 2 % 6
		if phase == 0 { // before hello
			c.s.Close()
			continue
		}
		c.hello()
		ids := uint64(20 + r.IntN(60))
		for id := uint64(1); id <= ids; id++ {
			q := everything(id)
			switch id % 4 {
			case 1:
				q.FromRevision = 1_000_000 // waits
			case 2:
				q.CreditEvents = 1 // stalls
			case 3:
				q.FromRevision = 0 // asks where it is
			}
			c.watch(q)
			if phase == 2 && id%2 == 0 {
				c.cancel(id)
			}
		}
		switch phase {
		case 3: // once all are answered
			c.answer(ids)
		case 4: // while events come
			w.put("/k/during", "v", 0)
		case 5: // creates and cancels, as fast as they go
			for id := uint64(1_000); id < 2_000; id++ {
				c.watch(everything(id))
				c.cancel(id)
			}
			c.answer(c.call - 1)
		}
		c.s.Close() // without a word
	}
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		watches, open := n.Open()
		if watches == 0 && open == connections && n.Actors() == actors && runtime.NumGoroutine() <= goroutines {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d watches, %d of %d connections, %d of %d actors, %d of %d goroutines",
				watches, open, connections, n.Actors(), actors, runtime.NumGoroutine(), goroutines)
		}
		<-tick.C
	}
	w.put("/k/after", "v", 0)
}
