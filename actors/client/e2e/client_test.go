package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

func TestReadsAndWrites(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)

	p, err := c.Put(ctx, "/a", []byte("1"), client.PutOptions{ContentType: "text/plain", Metadata: map[string][]byte{"z": []byte("2"), "a": []byte("1")}})
	if err != nil || p.Revision != 1 || p.Prev != nil {
		t.Fatal(p, err)
	}
	if p, err = c.Put(ctx, "/a", []byte("2"), client.PutOptions{}); err != nil || string(p.Prev.GetValue()) != "1" {
		t.Fatal(p, err)
	}
	many, err := c.PutMany(ctx, client.PutOf("/b", []byte("b"), client.PutOptions{}), client.PutOf("/c", nil, client.PutOptions{}))
	if err != nil || many.Revision != 3 || len(many.Prev) != 2 {
		t.Fatal(many, err)
	}
	g, err := c.GetMany(ctx, []string{"/b", "/none", "/a"}, client.GetOptions{})
	if err != nil || len(g.Records) != 3 || g.Records[1] != nil || string(g.Records[2].GetValue()) != "2" || g.Revision != 3 {
		t.Fatal(g, err)
	}
	first, err := c.Get(ctx, "/a", client.GetOptions{Revision: 1})
	if err != nil || string(client.Metadata(first.Record.Metadata)["z"]) != "2" {
		t.Fatal(first, err)
	}
	if absent, err := c.Get(ctx, "/none", client.GetOptions{}); err != nil || absent.Record != nil {
		t.Fatal(absent, err)
	}
	d, err := c.Delete(ctx, client.PrefixSelector("/"), client.DeleteOptions{Prev: true})
	if err != nil || d.Deleted != 3 || d.Revision != 4 || len(d.Prev) != 3 {
		t.Fatal(d, err)
	}
	h, err := c.History(ctx, "/a", client.HistoryOptions{})
	if err != nil || len(h.Versions) != 3 {
		t.Fatal(h, err)
	}
	status, err := c.Status(ctx)
	if err != nil || status.Revision != 4 || status.Sessions != 1 {
		t.Fatal(status, err)
	}
	stale, err := c.Get(ctx, "/a", client.GetOptions{Stale: true})
	if err != nil || stale.Record != nil || stale.Revision < 4 {
		t.Fatal(stale, err)
	}
}

// Pages are all of one revision, whatever is written meanwhile.
func TestPagesAreASnapshot(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	for i := range 50 {
		if _, err := c.Put(ctx, fmt.Sprintf("/%02d", i), []byte("old"), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for r, err := range c.Records(ctx, client.PrefixSelector("/"), client.ListOptions{Limit: 7}) {
		if err != nil || string(r.Value) != "old" || string(r.Key) != fmt.Sprintf("/%02d", seen) {
			t.Fatal(r, err)
		}
		seen++
		if _, err := c.Put(ctx, fmt.Sprintf("/%02d", 49-seen%25), []byte("new"), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if seen != 50 {
		t.Fatalf("%d records", seen)
	}
	// Compacted meanwhile: it says so and does not go on at another revision.
	var last error
	for r, err := range c.Records(ctx, client.PrefixSelector("/"), client.ListOptions{Limit: 7}) {
		if last = err; err != nil {
			break
		}
		if string(r.Key) == "/03" {
			now, err := c.Put(ctx, "/x", nil, client.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Compact(ctx, now.Revision); err != nil {
				t.Fatal(err)
			}
		}
	}
	if messages.CodeOf(last) != messages.Code_CODE_COMPACTED {
		t.Fatal(last)
	}
}

func TestConditions(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	var wg sync.WaitGroup
	created := make(chan uint64, 20)
	for range 20 {
		wg.Go(func() {
			r, err := c.Create(ctx, "/one", []byte("x"), client.PutOptions{})
			if err != nil {
				t.Error(err)
			}
			if r.Done {
				created <- r.Revision
			} else if r.Current == nil {
				t.Error("no current record")
			}
		})
	}
	wg.Wait()
	if len(created) != 1 {
		t.Fatalf("%d creators won", len(created))
	}
	rev := <-created
	if r, err := c.UpdateIf(ctx, "/one", rev+1, nil, client.PutOptions{}); err != nil || r.Done {
		t.Fatal(r, err)
	}
	if r, err := c.UpdateIf(ctx, "/one", rev, []byte("y"), client.PutOptions{}); err != nil || !r.Done || string(r.Current.GetValue()) != "x" {
		t.Fatal(r, err)
	}
	if r, err := c.Replace(ctx, "/two", nil, client.PutOptions{}); err != nil || r.Done || r.Current != nil {
		t.Fatal(r, err)
	}
	if r, err := c.DeleteIf(ctx, "/one", rev, client.DeleteOptions{}); err != nil || r.Done {
		t.Fatal(r, err)
	}
	if r, err := c.DeleteIf(ctx, "/one", rev+1, client.DeleteOptions{Prev: true}); err != nil || !r.Done || string(r.Current.GetValue()) != "y" {
		t.Fatal(r, err)
	}
}

// Increments by compare-and-set come out exact.
func TestTxnCounter(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	ctx := testContext(t)
	var wg sync.WaitGroup
	const clients, callers, each = 3, 4, 20
	for range clients {
		c := newClient(t, n.Addr())
		for range callers {
			wg.Go(func() {
				for range each {
					for done := false; !done; {
						g, err := c.Get(ctx, "/n", client.GetOptions{})
						if err != nil {
							t.Error(err)
							return
						}
						value := string(g.Record.GetValue())
						r, err := client.If(client.ModRevision("/n", client.Equal, g.Record.GetModRevision())).
							Then(client.OpPut("/n", []byte(value+"."), client.PutOptions{NoPrev: true})).Commit(ctx, c)
						if err != nil {
							t.Error(err)
							return
						}
						done = r.Succeeded
					}
				}
			})
		}
	}
	wg.Wait()
	g, err := newClient(t, n.Addr()).Get(ctx, "/n", client.GetOptions{})
	if err != nil || len(g.Record.GetValue()) != clients*callers*each {
		t.Fatal(len(g.Record.GetValue()), err)
	}
}

// A node that is stopped and started again under load: every acknowledged write is there
// once, in the order of its caller, and a watch misses nothing and repeats nothing.
func TestRestartUnderLoad(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, "")
	address := n.Addr()
	c := newClient(t, address)
	ctx := testContext(t)
	w, err := c.Watch(ctx, client.PrefixSelector("/load/"), client.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()

	stop := make(chan struct{})
	var wg sync.WaitGroup
	acknowledged := make([][]uint64, 16)
	for i := range acknowledged {
		wg.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				r, err := c.Put(ctx, fmt.Sprintf("/load/%02d/%06d", i, k), nil, client.PutOptions{NoPrev: true})
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged[i] = append(acknowledged[i], r.Revision)
			}
		})
	}
	for range 2 {
		<-time.After(300 * time.Millisecond) // let it work
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n = startNode(t, dir, address)
	}
	<-time.After(300 * time.Millisecond)
	close(stop)
	wg.Wait()

	total := 0
	want := map[uint64]string{}
	for i, revs := range acknowledged {
		for k, rev := range revs {
			if k > 0 && rev <= revs[k-1] {
				t.Fatalf("caller %d: revision %d after %d", i, rev, revs[k-1])
			}
			want[rev] = fmt.Sprintf("/load/%02d/%06d", i, k)
			total++
		}
	}
	if total < 100 || len(want) != total {
		t.Fatalf("%d writes, %d revisions", total, len(want))
	}
	got := map[uint64]string{}
	for len(got) < total {
		b, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d events: %v", len(got), total, err)
		}
		for _, e := range b.Events {
			if got[e.Revision] != "" {
				t.Fatalf("revision %d came twice", e.Revision)
			}
			got[e.Revision] = string(e.Record.Key)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestWatch(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	if _, err := c.Put(ctx, "/w/0", nil, client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	list, w, err := c.ListAndWatch(ctx, client.PrefixSelector("/w/"), client.ListOptions{}, client.WatchOptions{CreditEvents: 10})
	if err != nil || len(list.Records) != 1 || w.Start().FromRevision != list.Revision+1 {
		t.Fatal(list, err)
	}
	defer w.Close()
	// One revision far larger than the credit comes joined.
	var puts []*messages.Put
	for i := range 300 {
		puts = append(puts, client.PutOf(fmt.Sprintf("/w/%03d", i), []byte("v"), client.PutOptions{NoPrev: true}))
	}
	many, err := c.PutMany(ctx, puts...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.Next(ctx)
	if err != nil || len(b.Events) != 300 || !b.Last || b.Events[0].Revision != many.Revision {
		t.Fatal(len(b.Events), b.Last, err)
	}
	// Expiry names itself.
	if _, err := c.Put(ctx, "/w/ttl", nil, client.PutOptions{TTL: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	for _, cause := range []messages.EventCause{messages.EventCause_EVENT_CAUSE_WRITTEN, messages.EventCause_EVENT_CAUSE_EXPIRED} {
		if b, err = w.Next(ctx); err != nil || b.Events[0].Cause != cause {
			t.Fatal(b, err)
		}
	}
	// A slow caller holds back itself alone and misses nothing.
	for i := range 200 {
		if _, err := c.Put(ctx, fmt.Sprintf("/w/slow/%d", i), nil, client.PutOptions{NoPrev: true}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		if b, err = w.Next(ctx); err != nil || string(b.Events[0].Record.Key) != fmt.Sprintf("/w/slow/%d", i) {
			t.Fatal(i, b, err)
		}
	}
	_, err = c.Watch(ctx, client.PrefixSelector(""), client.WatchOptions{After: client.AfterRevision(1 << 40)})
	if err != nil {
		t.Fatalf("a future position waits: %v", err)
	}
}

// The session's lease lives for as long as it is renewed, its keys go when it is closed,
// and its holder is told when it is revoked or nobody answers.
func TestSession(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	kept, revoked, orphan := r.Session(0), r.Session(0), r.Session(0)
	if _, err := r.Put(ctx, "/s", nil, client.PutOptions{LeaseID: kept.LeaseID()}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Revoke(ctx, revoked.LeaseID()); err != nil {
		t.Fatal(err)
	}
	for range 9 { // three ttls
		r.Pass(20 * time.Second)
		recipetest.Eventually(t, "it is renewed", func() bool { return kept.Remaining() > 35*time.Second })
	}
	recipetest.Wait(t, revoked.Lease().Context().Done(), "the signal")
	if err := revoked.Lease().Err(); !errors.Is(err, lease.ErrLost) || messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
		t.Fatal(err)
	}
	if err := kept.Check(ctx); err != nil {
		t.Fatal(err)
	}
	if err := kept.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if g, err := r.Get(ctx, "/s", client.GetOptions{}); err != nil || g.Record != nil || !errors.Is(kept.Lease().Err(), lease.ErrEnded) {
		t.Fatal(g, err, kept.Lease().Err())
	}
	if err := w.Node.Close(); err != nil {
		t.Fatal(err)
	}
	r.Clock.Jump(orphan.Remaining())
	recipetest.Wait(t, orphan.Lease().Context().Done(), "the signal")
	if err := orphan.Lease().Err(); !errors.Is(err, session.ErrDeadline) {
		t.Fatal(err)
	}
}

// What cannot be done says why, with the facts, also after the hop.
func TestErrorsKeepTheirFacts(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	for range 5 {
		if _, err := c.Put(ctx, "/a", nil, client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Compact(ctx, 4); err != nil {
		t.Fatal(err)
	}
	_, compacted := c.Get(ctx, "/a", client.GetOptions{Revision: 2})
	_, future := c.Get(ctx, "/a", client.GetOptions{Revision: 99})
	_, gone := c.KeepAlive(ctx, 77, 0)
	_, unknown := client.If().Then(client.OpGet(client.KeySelector("/a"), 0), client.OpPut("/b", nil, client.PutOptions{LeaseID: 77})).Commit(ctx, c)
	_, large := c.Put(ctx, "/a", make([]byte, 1<<20+1), client.PutOptions{})
	for _, tc := range []struct {
		err  error
		code messages.Code
		fact func(d *messages.ErrorDetail) bool
	}{
		{compacted, messages.Code_CODE_COMPACTED, func(d *messages.ErrorDetail) bool { return d.CompactRevision == 4 }},
		{future, messages.Code_CODE_FUTURE_REVISION, func(d *messages.ErrorDetail) bool { return d.CurrentRevision == 5 }},
		{gone, messages.Code_CODE_LEASE_NOT_FOUND, func(d *messages.ErrorDetail) bool { return d.LeaseId == 77 }},
		{unknown, messages.Code_CODE_UNKNOWN_LEASE, func(d *messages.ErrorDetail) bool { return d.OpIndex != nil && *d.OpIndex == 1 }},
		{large, messages.Code_CODE_TOO_LARGE, func(d *messages.ErrorDetail) bool { return d.Limit == 1<<20 && d.Field == "value" }},
	} {
		if messages.CodeOf(tc.err) != tc.code || messages.OutcomeOf(tc.err) != messages.Outcome_OUTCOME_NOT_APPLIED || !tc.fact(messages.DetailOf(tc.err)) {
			t.Errorf("%v: %v", tc.code, messages.DetailOf(tc.err))
		}
	}
	// The refusal before the log used no number for good: the session goes on.
	if r, err := c.Put(ctx, "/a", nil, client.PutOptions{}); err != nil || r.Revision != 6 {
		t.Fatal(r, err)
	}
}

// An embedded node serves clients in its process.
func TestInProcess(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c, err := client.New(client.Config{Endpoints: []string{"embedded"}, Dialer: n.Dialer()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if _, err := c.Put(ctx, fmt.Sprint("/", i), []byte("v"), client.PutOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r, err := c.Revision(ctx); err != nil || r.Revision != 200 {
		t.Fatal(r, err)
	}
}
