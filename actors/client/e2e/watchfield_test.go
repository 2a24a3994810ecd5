package e2e

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// Faults of watches that users of systems like this one have reported, from end to end.
// What the name says is what must not happen again.

// expectEvents takes batches until there are n events.
func expectEvents(t *testing.T, w *client.Watcher, n int) []*messages.Event {
	t.Helper()
	ctx := testContext(t)
	var all []*messages.Event
	for len(all) < n {
		b, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d events: %v", len(all), n, err)
		}
		all = append(all, b.Events...)
	}
	if len(all) != n {
		t.Fatalf("%d events, want %d", len(all), n)
	}
	return all
}

// Commands that fail or change nothing take no revision and make no event.
func TestWhatChangesNothingIsNoEvent(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	first, err := c.Put(ctx, "/k", []byte("1"), client.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(ctx, client.PrefixSelector(""), client.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	g, err := c.Grant(ctx, time.Minute, client.GrantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"delete of nothing": func() error {
			_, err := c.Delete(ctx, client.KeySelector("/none"), client.DeleteOptions{})
			return err
		},
		"create of what is there": func() error { _, err := c.Create(ctx, "/k", nil, client.PutOptions{}); return err },
		"replace of what is not":  func() error { _, err := c.Replace(ctx, "/none", nil, client.PutOptions{}); return err },
		"update at another revision": func() error {
			_, err := c.UpdateIf(ctx, "/k", first.Revision+7, nil, client.PutOptions{})
			return err
		},
		"delete at another revision": func() error {
			_, err := c.DeleteIf(ctx, "/k", first.Revision+7, client.DeleteOptions{})
			return err
		},
		"keep-alive":                     func() error { _, err := c.KeepAlive(ctx, g.LeaseID, 0); return err },
		"grant":                          func() error { _, err := c.Grant(ctx, time.Minute, client.GrantOptions{}); return err },
		"revoke of a lease without keys": func() error { _, err := c.Revoke(ctx, g.LeaseID); return err },
		"put on a lease that is gone": func() error {
			if _, err := c.Put(ctx, "/k", nil, client.PutOptions{LeaseID: 1 << 40}); messages.CodeOf(err) != messages.Code_CODE_UNKNOWN_LEASE {
				return fmt.Errorf("put on no lease: %w", err)
			}
			return nil
		},
		"compaction": func() error { _, err := c.Compact(ctx, first.Revision); return err },
		"get":        func() error { _, err := c.Get(ctx, "/k", client.GetOptions{}); return err },
	} {
		if err := f(); err != nil {
			// A lease that one of them revoked is no fault of another.
			if messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
				t.Errorf("%s: %v", name, err)
			}
		}
		if r, err := c.Revision(ctx); err != nil || r.Revision != first.Revision {
			t.Errorf("%s: revision %d, %v", name, r.Revision, err)
		}
	}
	ch, err := c.Changes(ctx, client.PrefixSelector(""), client.AfterRevision(first.Revision), client.ChangesOptions{})
	if err != nil || len(ch.Events) != 0 || ch.HasMore {
		t.Fatalf("changes %v, %v", ch, err)
	}
	last, err := c.Put(ctx, "/k", []byte("2"), client.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e := expectEvents(t, w, 1); e[0].Revision != last.Revision || last.Revision != first.Revision+1 {
		t.Fatalf("got %v", e)
	}
}

// A key whose time has run out makes one delete event that says so, also ten thousand of
// them at once, and its revision is in changes and history.
func TestExpiryIsSeen(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	w, err := c.Watch(ctx, client.PrefixSelector("/ttl/"), client.WatchOptions{Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE}, Prev: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := c.Put(ctx, "/ttl/one", []byte("v"), client.PutOptions{TTL: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	e := expectEvents(t, w, 1)[0]
	if e.Cause != messages.EventCause_EVENT_CAUSE_EXPIRED || string(e.Prev.GetValue()) != "v" {
		t.Fatalf("got %v", e)
	}
	ch, err := c.Changes(ctx, client.KeySelector("/ttl/one"), client.AfterRevision(e.Revision-1), client.ChangesOptions{})
	if err != nil || len(ch.Events) != 1 || ch.Events[0].Cause != e.Cause {
		t.Fatal(ch, err)
	}
	h, err := c.History(ctx, "/ttl/one", client.HistoryOptions{})
	if err != nil || len(h.Versions) != 2 || h.Versions[1].Revision != e.Revision {
		t.Fatal(h, err)
	}
	lease, err := c.Grant(ctx, 5*time.Second, client.GrantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Names of 1,000 bytes: the events of the end do not fit one message.
	long := strings.Repeat("n", 1_000)
	const keys = 10_000
	for i := 0; i < keys; i += 500 {
		var puts []*messages.Put
		for j := range 500 {
			puts = append(puts, client.PutOf(fmt.Sprintf("/ttl/%s%05d", long, i+j), nil, client.PutOptions{LeaseID: lease.LeaseID}))
		}
		if _, err := c.PutMany(ctx, puts...); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := c.Revoke(ctx, lease.LeaseID); err != nil || keys != 10_000 {
		t.Fatal(keys, err)
	}
	all := expectEvents(t, w, keys)
	for i, e := range all {
		if e.OpIndex != uint32(i) || e.Revision != all[0].Revision || e.Cause != messages.EventCause_EVENT_CAUSE_REVOKED {
			t.Fatalf("event %d is (%d, %d) %v", i, e.Revision, e.OpIndex, e.Cause)
		}
	}
	// The same, pulled.
	pulled, next := 0, client.AfterRevision(all[0].Revision-1)
	for more := true; more; {
		ch, err := c.Changes(ctx, client.PrefixSelector("/ttl/"), next, client.ChangesOptions{Limit: 700})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range ch.Events {
			if e.OpIndex != uint32(pulled) {
				t.Fatalf("operation %d after %d", e.OpIndex, pulled-1)
			}
			pulled++
		}
		next, more = ch.Next, ch.HasMore
	}
	if pulled != keys {
		t.Fatalf("pulled %d events", pulled)
	}
}

// Going on inside a transaction, after each of its operations and with each limit, gives
// every operation once.
func TestResumingInsideTransaction(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	var puts []*messages.Put
	for i := range 5 {
		puts = append(puts, client.PutOf("/t", fmt.Append(nil, i), client.PutOptions{})) // one key, five times
	}
	r, err := c.PutMany(ctx, puts...)
	if err != nil {
		// Several puts of one key may be refused; distinct ones then.
		for i := range puts {
			puts[i] = client.PutOf(fmt.Sprint("/t", i), nil, client.PutOptions{})
		}
		if r, err = c.PutMany(ctx, puts...); err != nil {
			t.Fatal(err)
		}
	}
	for op := range uint32(5) {
		w, err := c.Watch(ctx, client.PrefixSelector("/t"), client.WatchOptions{After: &messages.Position{Revision: r.Revision, OpIndex: op}, Progress: true})
		if err != nil {
			t.Fatal(err)
		}
		if rest := int(4 - op); rest > 0 {
			if e := expectEvents(t, w, rest); e[0].OpIndex != op+1 {
				t.Fatalf("after %d came %d", op, e[0].OpIndex)
			}
		}
		w.Close()
	}
	for limit := range uint32(6) {
		var ops []uint32
		next := client.AfterRevision(r.Revision - 1)
		for more := true; more; {
			ch, err := c.Changes(ctx, client.PrefixSelector("/t"), next, client.ChangesOptions{Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range ch.Events {
				ops = append(ops, e.OpIndex)
			}
			next, more = ch.Next, ch.HasMore
		}
		if fmt.Sprint(ops) != "[0 1 2 3 4]" {
			t.Fatalf("with limit %d: %v", limit, ops)
		}
	}
}

// Revisions that cannot be have a documented meaning or a code, everywhere alike.
func TestRevisionsThatCannotBe(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	if _, err := c.Put(ctx, "/k", nil, client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	all := client.PrefixSelector("")
	for _, v := range []int64{-1, math.MinInt64} {
		bad := uint64(v)
		for name, f := range map[string]func() error{
			"watch": func() error { _, err := c.Watch(ctx, all, client.WatchOptions{From: bad}); return err },
			"watch after": func() error {
				_, err := c.Watch(ctx, all, client.WatchOptions{After: &messages.Position{Revision: bad}})
				return err
			},
			"changes": func() error {
				_, err := c.Changes(ctx, all, &messages.Position{Revision: bad}, client.ChangesOptions{})
				return err
			},
			"get":     func() error { _, err := c.Get(ctx, "/k", client.GetOptions{Revision: bad}); return err },
			"list":    func() error { _, err := c.List(ctx, all, client.ListOptions{Revision: bad}); return err },
			"history": func() error { _, err := c.History(ctx, "/k", client.HistoryOptions{From: bad}); return err },
			"compact": func() error { _, err := c.Compact(ctx, bad); return err },
		} {
			if code := messages.CodeOf(f()); code != messages.Code_CODE_INVALID_ARGUMENT {
				t.Errorf("%s at %d: %v", name, v, code)
			}
		}
	}
	far := uint64(math.MaxInt64)
	if _, err := c.Get(ctx, "/k", client.GetOptions{Revision: far}); messages.CodeOf(err) != messages.Code_CODE_FUTURE_REVISION {
		t.Error(err)
	}
	w, err := c.Watch(ctx, all, client.WatchOptions{From: far})
	if err != nil {
		t.Fatal(err) // it waits, a little long
	}
	w.Close()
}
