package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/watchcheck"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/mirror"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// TestWatchesThroughFaults runs every kind of watch, and a mirror, through kills,
// pauses and cuts, one-way ones too, while history is compacted all the time as far as
// consumers allow. Each watch keeps each promise; none is ever compacted away, because
// each is counted. At last a member that runs falls so far behind that the leader sends it
// a snapshot, with watches on it.
func TestWatchesThroughFaults(t *testing.T) {
	seed := *clusterSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay: -run TestWatchesThroughFaults -cluster.seed=%d", seed)
	c := NewCluster(t, ClusterOptions{Nodes: 3, Network: true, Flags: []string{"--snapshot-bytes", "65536", "--snapshot-keep-entries", "100", "--log-level", "info"}})
	load := StartWatchLoad(t, seed, 3, 4*time.Millisecond, c.Client)
	var all []*Follower
	for _, kind := range WatchKinds {
		all = append(all, Follow(t, kind, load.Truth, c.Client))
	}
	m, err := mirror.Open(t.Context(), c.Client(), client.PrefixSelector(""), mirror.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()

	compacting, stop := context.WithCancel(t.Context())
	compacted := make(chan uint64, 1)
	operator := c.Client()
	go func() {
		last := uint64(0)
		for compacting.Err() == nil {
			if c, err := operator.Compact(compacting, load.Truth.Last()); err == nil {
				last = c
			}
			pause(compacting, 100*time.Millisecond)
		}
		compacted <- last
	}()

	r := rand.New(rand.NewPCG(seed, 2))
	faults := map[string]func(){
		"kill follower":    func() { m := one(r, c.Followers()); m.Kill(); load.Wait(300); m.Start() },
		"kill leader":      func() { m := c.Leader(); m.Kill(); load.Wait(300); m.Start() },
		"isolate follower": func() { c.Net.Isolate([]uint64{one(r, c.Followers()).ID}, c.IDs()); load.Wait(300); c.Net.Heal() },
		"leader deaf": func() {
			leader := c.Leader()
			for _, m := range c.Members() {
				if m != leader {
					c.Net.Hold(m.ID, leader.ID)
				}
			}
			load.Wait(100)
			c.Net.Heal()
		},
		"restart": func() {
			m := one(r, c.Followers())
			if err := m.Stop(); err != nil {
				t.Error(err)
			}
			load.Wait(100)
			m.Start()
		},
	}
	names := []string{"kill follower", "kill leader", "isolate follower", "leader deaf", "restart"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if testing.Short() {
		names = names[:2]
	}
	load.Wait(200)
	for _, name := range names {
		began := time.Now()
		faults[name]()
		c.WaitServing()
		load.Wait(100)
		t.Logf("%s: %.1f s, revision %d", name, time.Since(began).Seconds(), load.Truth.Last())
	}
	// A node that is cut off cannot say how far its watches are.
	stop()
	lowest := <-compacted
	all = append(all, watchThroughSnapshot(t, c, load, one(r, c.Followers()))...)
	load.Stop()
	last := load.Truth.Last()
	for _, f := range all {
		f.Finish(t, last)
	}
	v, err := m.Wait(Deadline(t, time.Minute), last)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for r := range v.Records {
		got = append(got, fmt.Sprintf("%s=%s", r.Key, r.Value))
	}
	for r, err := range operator.Records(t.Context(), Prefix(""), client.ListOptions{Revision: v.Revision()}) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%s=%s", r.Key, r.Value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the mirror has %v, the cluster %v", got, want)
	}
	t.Logf("%d revisions, compacted to %d, the mirror listed %d times", last, lowest, m.Lists())
}

// watchThroughSnapshot cuts a member off until the others have dropped the log that it
// lacks, and waits until it has got the leader's snapshot in its place. It returns the
// watches that were on that member all the time.
func watchThroughSnapshot(t *testing.T, c *Cluster, load *WatchLoad, m *Member) (all []*Follower) {
	t.Helper()
	for _, kind := range WatchKinds {
		kind.Name += ", through a snapshot"
		all = append(all, FollowFrom(t, kind, load.Truth.Last()+1, load.Truth, func() *client.Client { return c.client(m.Listen) }))
	}
	load.Wait(100)
	began := time.Now().Truncate(time.Millisecond)
	ctx := Deadline(t, 3*time.Minute)
	var others []string
	for _, o := range c.Members() {
		if o != m {
			others = append(others, o.Listen)
		}
	}
	s, value := c.client(others...), strings.Repeat("v", 500)
	for n := 0; ; n++ {
		c.Net.Sever([]uint64{m.ID}, c.IDs())
		// More entries than are kept behind a snapshot, each of its own.
		for i := range 500 {
			v := fmt.Sprint(n, ".", i, value)
			p, err := s.Put(ctx, "/a/large", []byte(v), client.PutOptions{})
			if ctx.Err() != nil {
				t.Fatal(err)
			}
			if err != nil {
				t.Logf("write %d.%d: %v", n, i, err)
				continue
			}
			if err := load.Truth.Wrote(p.Revision, watchcheck.Change{Key: "/a/large", Value: v}); err != nil {
				t.Fatal(err)
			}
		}
		c.Net.Heal()
		c.WaitServing()
		if gotSnapshot(m.Output(), began) {
			t.Logf("node %d got a snapshot after %d round(s)", m.ID, n+1)
			return all
		}
		if n == 9 {
			t.Fatalf("node %d has not got a snapshot", m.ID)
		}
	}
}

// gotSnapshot tells whether a node has logged since then that its state was replaced. Of
// the log only the last part is there.
func gotSnapshot(output string, since time.Time) bool {
	for line := range strings.Lines(output) {
		at, rest, ok := strings.Cut(strings.TrimPrefix(line, "time="), " ")
		if !ok || !strings.Contains(rest, "the state is that of a snapshot") {
			continue
		}
		if t, err := time.Parse(time.RFC3339, at); err == nil && !t.Before(since) {
			return true
		}
	}
	return false
}

// TestCutOffNodeEndsWatches: a node that hears of no leader ends its watches with
// no_quorum and a place to resume from, and takes no new ones; a client that knows other
// nodes is there by then and has missed nothing.
func TestCutOffNodeEndsWatches(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3, Network: true})
	load := StartWatchLoad(t, 1, 2, 5*time.Millisecond, c.Client)
	load.Wait(50)
	cut := c.Followers()[0]
	ctx := Deadline(t, time.Minute)
	s, err := transport.NewGRPCDialer(transport.DialerOptions{}).Dial(ctx, cut.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stopReading := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stopReading()
	raw := rawSession(t, s)
	raw.watch(1, &messages.WatchRequest{WatchId: 1, Selector: Prefix(""), FromRevision: 1, CreditEvents: 100_000})
	// A client of all nodes; whichever it is on.
	var all []*Follower
	for range 6 {
		all = append(all, Follow(t, WatchKind{Name: "roaming"}, load.Truth, c.Client))
	}
	load.Wait(50)
	c.Net.Isolate([]uint64{cut.ID}, c.IDs())
	load.Wait(50)
	end := raw.until(func(m *messages.ServerMessage) bool { return m.GetWatchEnd() != nil }).GetWatchEnd()
	if end.GetReason().GetCode() != messages.Code_CODE_NO_QUORUM || end.GetResume().GetRevision() == 0 {
		t.Fatalf("ended %v", end)
	}
	raw.watch(2, &messages.WatchRequest{WatchId: 2, Selector: Prefix(""), FromRevision: 1})
	refused := raw.until(func(m *messages.ServerMessage) bool {
		return len(m.GetReplies().GetReplies()) > 0 && m.GetReplies().Replies[0].GetCall() == 2
	})
	if code := refused.GetReplies().Replies[0].GetError().GetCode(); code != messages.Code_CODE_NO_QUORUM {
		t.Fatalf("a watch on a node that is cut off: %v", refused)
	}
	load.Stop()
	for _, f := range all {
		f.Finish(t, load.Truth.Last()) // while the node is still cut off
	}
	c.Net.Heal()
}

// rawClient speaks the session protocol by hand.
type rawClient struct {
	t testing.TB
	s transport.ClientStream
}

func rawSession(t testing.TB, s transport.ClientStream) *rawClient {
	t.Helper()
	r := &rawClient{t, s}
	r.send(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{
		Protocol: messages.ProtocolVersion, ClientEpoch: 7, ClientName: t.Name(),
	}}})
	r.until(func(m *messages.ServerMessage) bool { return m.GetHello() != nil })
	go func() { // a silent client is closed
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for i := uint64(1); ; i++ {
			<-tick.C
			if s.Send(&messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{Heartbeat: &messages.Heartbeat{Number: i}}}) != nil {
				return
			}
		}
	}()
	return r
}

func (r *rawClient) send(m *messages.ClientMessage) {
	r.t.Helper()
	if err := r.s.Send(m); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rawClient) watch(call uint64, w *messages.WatchRequest) {
	r.t.Helper()
	r.send(&messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
		ClientEpoch: 7, FirstCall: call, Operations: []*messages.Operation{{Operation: &messages.Operation_Watch{Watch: w}}},
	}}})
}

func (r *rawClient) until(ok func(*messages.ServerMessage) bool) *messages.ServerMessage {
	r.t.Helper()
	for {
		m, err := r.s.Recv()
		if err != nil {
			r.t.Fatal(err)
		}
		if ok(m) {
			return m
		}
	}
}

// TestCompactionDuringReplay: history that a watch still has to read is held back while
// the watch counts, whatever is asked for; a watch that is too far behind to count gets a
// beginning without a gap and then the one word compacted.
func TestCompactionDuringReplay(t *testing.T) {
	n := NewNode(t)
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	ctx := Deadline(t, 3*time.Minute)
	load := StartWatchLoad(t, 1, 64, 0, n.Client)
	load.Wait(5_000)
	load.Stop()
	last := load.Truth.Last()

	open := func() (*client.Watcher, *watchcheck.Check) {
		t.Helper()
		w, err := n.Client().Watch(ctx, Prefix(""), client.WatchOptions{From: 1, CreditEvents: 50})
		if err != nil {
			t.Fatal(err)
		}
		return w, watchcheck.New("replay", load.Truth, 1, watchcheck.Options{})
	}
	read := func(w *client.Watcher, k *watchcheck.Check, batches int) error {
		t.Helper()
		for i := 0; i < batches && k.Next() <= last; i++ {
			b, err := w.Next(ctx)
			if err != nil {
				return err
			}
			if err := k.Batch(b); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	}
	counted, check := open()
	if err := read(counted, check, 100); err != nil {
		t.Fatal(err)
	}
	waitHeld(t, ctx, c)
	for check.Next() < last-1_000 {
		compact, err := c.Compact(ctx, last)
		if err != nil {
			t.Fatal(err)
		}
		if compact >= last {
			t.Fatalf("compacted to %d although a watch is at %d", compact, check.Next()-1)
		}
		if err := read(counted, check, 200); err != nil {
			t.Fatal(err)
		}
		pause(ctx, 50*time.Millisecond)
	}
	if err := read(counted, check, 1<<30); err != nil {
		t.Fatal(err)
	}
	if err := check.Verify(last); err != nil {
		t.Error(err)
	}
	counted.Close()

	// From here on a consumer counts for ten revisions.
	if _, err := c.SetClusterConfig(ctx, &messages.ClusterConfig{ConsumerLagMax: 10}, "consumer_lag_max"); err != nil {
		t.Fatal(err)
	}
	more := StartWatchLoad(t, 2, 64, 0, n.Client)
	more.Truth = load.Truth
	s, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	from := s.CompactRevision + 1
	behind, err := n.Client().Watch(ctx, Prefix(""), client.WatchOptions{From: from, CreditEvents: 50})
	if err != nil {
		t.Fatal(err)
	}
	far := watchcheck.New("too far behind", load.Truth, from, watchcheck.Options{})
	more.Wait(3_000)
	more.Stop()
	head := load.Truth.Last()
	compact, err := c.Compact(ctx, head)
	if err != nil || compact < head-10 {
		t.Fatalf("compacted to %d of %d, %v", compact, head, err)
	}
	for err == nil {
		var b client.WatchBatch
		if b, err = behind.Next(ctx); err == nil {
			if err := far.Batch(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if messages.CodeOf(err) != messages.Code_CODE_COMPACTED {
		t.Fatal(err)
	}
	if err := far.Ended(err, compact); err != nil {
		t.Error(err)
	}
	if err := far.Verify(far.Next() - 1); err != nil {
		t.Error(err)
	}
	t.Logf("%d of %d revisions, then compacted", far.Next()-from, head-from+1)
}

// TestStalledConsumersAndRestarts: consumers that read nothing cost nobody anything, and
// go on without a gap when they read again, after their node was killed and restarted.
func TestStalledConsumersAndRestarts(t *testing.T) {
	n := NewNode(t)
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	ctx := Deadline(t, 3*time.Minute)
	load := StartWatchLoad(t, 3, 16, time.Millisecond, n.Client)
	healthy := Follow(t, WatchKind{Name: "healthy"}, load.Truth, n.Client)
	const stalled = 20
	var (
		watches [stalled]*client.Watcher
		checks  [stalled]*watchcheck.Check
	)
	for i := range stalled {
		w, err := n.Client().Watch(ctx, Prefix(""), client.WatchOptions{From: 1, CreditEvents: uint32(1 + i*10)})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watches[i], checks[i] = w, watchcheck.New(fmt.Sprint("stalled ", i), load.Truth, 1, watchcheck.Options{})
	}
	load.Wait(1_000)
	n.Kill()
	n.Start()
	load.Wait(1_000)
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
	n.Start()
	load.Wait(1_000)
	load.Stop()
	last := load.Truth.Last()
	healthy.Finish(t, last)
	for i := range stalled {
		for checks[i].Next() <= last {
			b, err := watches[i].Next(ctx)
			if err != nil {
				t.Fatalf("watch %d at revision %d: %v", i, checks[i].Next()-1, err)
			}
			if err := checks[i].Batch(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := checks[i].Verify(last); err != nil {
			t.Error(err)
		}
	}
}

// TestDeletesSurviveCrashDuringCompaction: a node that is killed while it sweeps what was
// compacted shows, when it is back, what one shows that was not: the state at the compact
// revision and every change after it, deletes among them.
func TestDeletesSurviveCrashDuringCompaction(t *testing.T) {
	n := NewNode(t)
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	ctx := Deadline(t, 3*time.Minute)
	const keys = 400
	for round := range 4 {
		key := func(i int) string { return fmt.Sprintf("/%d/%03d", round, i) }
		for range 10 {
			var puts []*messages.Put
			for i := range keys {
				puts = append(puts, client.PutOf(key(i), []byte("v"), client.PutOptions{}))
			}
			if _, err := c.PutMany(ctx, puts...); err != nil {
				t.Fatal(err)
			}
		}
		prefix := Prefix(fmt.Sprintf("/%d/", round))
		early, err := c.Delete(ctx, client.KeySelector(key(0)), client.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		late, err := c.Delete(ctx, prefix, client.DeleteOptions{})
		if err != nil || late.Deleted != keys-1 {
			t.Fatal(late, err)
		}
		compact, err := c.Compact(ctx, early.Revision)
		if err != nil || compact != early.Revision {
			t.Fatal(compact, err)
		}
		n.Kill()
		n.Start()
		list, err := c.List(ctx, prefix, client.ListOptions{Revision: compact, CountOnly: true})
		if err != nil || list.Count != keys-1 {
			t.Fatalf("round %d: %d keys at the compact revision, %v", round, list.Count, err)
		}
		if g, err := c.Get(ctx, key(0), client.GetOptions{Revision: compact}); err != nil || g.Record != nil {
			t.Fatalf("round %d: the key deleted at the compact revision: %v, %v", round, g.Record, err)
		}
		// Pulled and not watched: the node would report a watch, and after the kill of the
		// next round that report would hold compaction back until its lease has ended.
		b, err := c.Changes(ctx, prefix, client.AfterRevision(compact), client.ChangesOptions{Limit: keys})
		if err != nil || len(b.Events) != keys-1 || b.Events[0].Type != messages.EventType_EVENT_TYPE_DELETE || b.Events[keys-2].Revision != late.Revision {
			t.Fatalf("round %d: %d events to %v, %v", round, len(b.Events), b.Next, err)
		}
		if _, err := c.Watch(ctx, prefix, client.WatchOptions{From: compact}); messages.CodeOf(err) != messages.Code_CODE_COMPACTED {
			t.Fatalf("round %d: a watch from the compact revision: %v", round, err)
		}
	}
}

// waitHeld waits until the cluster knows of a consumer that holds history: a node tells
// how far its watches are about once a second.
func waitHeld(t *testing.T, ctx context.Context, c *client.Client) {
	t.Helper()
	for {
		s, err := c.Status(ctx)
		if err != nil {
			t.Fatalf("no consumer holds history: %v", err)
		}
		if s.HeldRevision != nil {
			return
		}
		pause(ctx, 20*time.Millisecond)
	}
}
