package session

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// TestChurnIsReadSlower: a client that begins and ends watches faster than it may is not
// read from until it has paid; one frame that asks for far too much is refused with the
// time to wait; another client notices nothing; and all is forgotten when it is paid.
func TestChurnIsReadSlower(t *testing.T) {
	d := newDesk(t, Limits{ChurnPerClient: 10, ChurnPerNode: 15})
	id := uint64(0)
	watch := func(d *desk, n int) {
		var ops []*messages.Operation
		for range n {
			id++
			ops = append(ops, watchOp(&messages.WatchRequest{WatchId: id, FromRevision: 1}))
		}
		d.ask(ops...)
		d.core.settle()
	}
	watch(d, 10*churnSeconds)
	if d.held {
		t.Fatal("held within what may be saved up")
	}
	watch(d, 1)
	if !d.held {
		t.Fatal("not held in debt")
	}
	watch(d, 60)
	var refused []*messages.ErrorDetail
	for _, r := range d.replies() {
		if e := r.GetError(); e != nil {
			refused = append(refused, e)
		}
	}
	if len(refused) != 60-10 {
		t.Fatalf("%d beyond the account are refused, want those beyond a second's worth of debt: %v", len(refused), refused[0])
	}
	if e := refused[0]; e.GetCode() != messages.Code_CODE_OVERLOADED || e.GetField() != "watch" || e.GetLimit() != 10 || e.GetRetryAfterMs() == 0 {
		t.Fatalf("refused with %v", e)
	}
	other := newCore(2, "", d.core.cfg, d.adm, d)
	other.peer = transport.Peer{Kind: transport.KindGRPC, Address: "10.0.0.9:1"}
	if err := d.adm.share(other); err != nil || d.adm.mayChurn(other.client) != nil || d.adm.owing(other.client) {
		t.Fatalf("another client: %v", err)
	}
	for i := 0; d.held; i++ {
		if i == 100 {
			t.Fatal("held for ever")
		}
		d.adm.tick()
		d.tick(tickMs)
	}
	d.adm.unshare(d.core.client)
	for range 10 * churnSeconds * 1_000 / tickMs {
		d.adm.tick()
	}
	if len(d.adm.churning) != 0 || len(d.adm.clients) != 1 {
		t.Fatalf("%d accounts and %d clients are left", len(d.adm.churning), len(d.adm.clients))
	}
}

// TestDebtOutlivesTheConnection: whoever connects anew owes what it owed.
func TestDebtOutlivesTheConnection(t *testing.T) {
	d := newDesk(t, Limits{ChurnPerClient: 10, ChurnPerNode: 10})
	owing := d.core.client
	d.adm.pay(owing, 10*churnSeconds*priceWatch+1)
	d.core.stopped()
	again := newCore(2, "alice", d.core.cfg, d.adm, d)
	again.who.name = "alice"
	if err := d.adm.share(again); err != nil || again.client != owing || !d.adm.owing(again.client) {
		t.Fatalf("%v, the same client %v", err, again.client == owing)
	}
}

// TestCrowdedOut: where too much waits for all, a client that has more than its share loses
// the connections that have more than theirs; what another one has waiting stays, and one
// client's share does not grow with its connections.
func TestCrowdedOut(t *testing.T) {
	for _, c := range []struct {
		name           string
		connections    int64 // of the crowd, with a part of 11 MiB each
		mine           bool  // the connection is one of the crowd
		backlog, share int64 // of the connection; what each client may have
		ends           bool
	}{
		{"one of the crowd", 20, true, 1 << 20, 5 << 19, true},
		{"one of the crowd for which little waits", 20, true, 1 << 10, 5 << 19, false},
		{"another's for which as much waits", 20, false, 1 << 20, 5 << 19, false},
		{"another's beside ten times as many", 200, false, 1 << 20, 5 << 19, false},
	} {
		d := newDesk(t, Limits{QueueBytesPerNode: 10 << 20})
		crowd := &client{name: "crowd"}
		if c.mine {
			crowd = d.core.client
		}
		for range c.connections {
			d.adm.waits(crowd, 0, 11<<20/c.connections)
		}
		other := d.core.client
		if c.mine {
			other = &client{name: "other"}
		}
		d.adm.waits(other, 0, 1<<10)
		if share := d.adm.clientPortion(); share != c.share {
			t.Errorf("%s: a share is %d, want %d", c.name, share, c.share)
		}
		d.backlog = c.backlog
		d.tick(tickMs)
		if d.closed != c.ends || c.ends && (d.reason.GetCode() != messages.Code_CODE_SLOW_CONSUMER || d.reason.GetRetryAfterMs() == 0) {
			t.Errorf("%s: ended %v with %v", c.name, d.closed, d.reason)
		}
		for range c.connections {
			d.adm.waits(crowd, 11<<20/c.connections, 0)
		}
		d.adm.waits(other, 1<<10, 0)
		if d.adm.queued.Load() != 0 || d.adm.behind.Load() != 0 || crowd.queued.Load() != 0 || crowd.behind.Load() != 0 {
			t.Errorf("%s: %d bytes of %d clients are left", c.name, d.adm.queued.Load(), d.adm.behind.Load())
		}
	}
}

// TestTurnstileTakesTurns: one place, many sessions of one client and one of another: the
// other waits for one turn at most.
func TestTurnstileTakesTurns(t *testing.T) {
	g := &turnstile{free: 1}
	loud, calm := &client{name: "loud"}, &client{name: "calm"}
	g.enter(loud)
	var mu sync.Mutex
	var order []string
	var wg sync.WaitGroup
	queue := func(c *client, waiting int) {
		wg.Go(func() {
			g.enter(c)
			mu.Lock()
			order = append(order, c.name)
			mu.Unlock()
			g.leave(0)
		})
		for { // until it stands in line
			g.mu.Lock()
			n := 0
			for _, l := range g.lines {
				n += len(l.waiting)
			}
			g.mu.Unlock()
			if n == waiting {
				return
			}
			runtime.Gosched()
		}
	}
	for i := range 20 {
		queue(loud, i+1)
	}
	queue(calm, 21)
	g.leave(0)
	wg.Wait()
	if at := slices.Index(order, "calm"); at > 2 || len(order) != 21 || g.free != 1 || len(g.lines) != 0 {
		t.Fatalf("calm had turn %d of %d; %d places free, %d lines", at, len(order), g.free, len(g.lines))
	}
}

// TestTurnstileRests: beside short calls on busy processors a place is free again only when
// it has rested for as long as the reads before made it; on idle ones, or with nobody else
// there, at once.
func TestTurnstileRests(t *testing.T) {
	var others bool
	g := &turnstile{free: 1, short: func() bool { return others }}
	free := func() int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.free
	}
	g.measure(1_000, 0)
	for _, c := range []struct {
		name     string
		usedPart float64 // of all processors
		others   bool
		took     time.Duration
		rests    bool
	}{
		{name: "idle", usedPart: 0.1, others: true, took: time.Minute},
		{name: "busy, alone", usedPart: 1, took: time.Minute},
		{name: "busy, a short read", usedPart: 1, others: true, took: restMin / restFactor / 2},
		{name: "busy", usedPart: 1, others: true, took: time.Minute, rests: true},
	} {
		others = c.others
		g.measure(g.measuredMs+1_000, g.used+time.Duration(c.usedPart*float64(runtime.GOMAXPROCS(0))*float64(time.Second)))
		g.enter(&client{})
		began := time.Now()
		g.leave(c.took)
		if !c.rests {
			if free() != 1 {
				t.Errorf("%s: the place rests", c.name)
			}
			continue
		}
		g.enter(&client{}) // waits for the rest
		if passed := time.Since(began); passed < restMax {
			t.Errorf("%s: the place was free after %v, want %v", c.name, passed, restMax)
		}
	}
}
