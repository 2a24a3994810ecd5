package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/consumer"
	"github.com/concord-kv/concord/actors/client/mirror"
	"github.com/concord-kv/concord/messages"
)

// sameAs fails unless the view is what the cluster has at the view's revision.
func sameAs(t *testing.T, ctx context.Context, c *client.Client, v mirror.View, prefix string) {
	t.Helper()
	var want, got []string
	for r, err := range c.Records(ctx, client.PrefixSelector(prefix), client.ListOptions{Revision: v.Revision()}) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.ModRevision))
	}
	for r := range v.Records {
		got = append(got, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.ModRevision))
	}
	if !slices.Equal(got, want) || v.Len() != len(want) {
		t.Fatalf("at revision %d the mirror has %d records %.200v, the cluster %d %.200v", v.Revision(), len(got), got, len(want), want)
	}
}

// A mirror is a state of the cluster at every moment, also while many write; it never
// goes back, and it goes on after compaction has passed it.
func TestMirror(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, "")
	address := n.Addr()
	c, writer := newClient(t, address), newClient(t, address)
	ctx := testContext(t)
	put := func(i int) uint64 {
		t.Helper()
		r, err := writer.PutMany(ctx,
			client.PutOf(fmt.Sprintf("/m/%03d", i%50), fmt.Appendf(nil, "%d", i), client.PutOptions{}),
			client.PutOf("/m/twin", fmt.Appendf(nil, "%d", i), client.PutOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		return r.Revision
	}
	for i := range 20 {
		put(i)
	}
	var updates []mirror.Update
	var mu sync.Mutex
	m, err := mirror.Open(ctx, c, client.PrefixSelector("/m/"), mirror.Options{OnUpdate: func(u mirror.Update) {
		mu.Lock()
		defer mu.Unlock()
		if k := len(updates); k > 0 && u.View.Revision() <= updates[k-1].View.Revision() {
			t.Errorf("revision %d after %d", u.View.Revision(), updates[k-1].View.Revision())
		}
		updates = append(updates, u)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.View().Len() != 21 {
		t.Fatalf("%d records", m.View().Len())
	}
	old := m.View()
	for i := range 200 {
		revision := put(20 + i)
		if i%7 == 0 {
			if _, err := writer.Delete(ctx, client.KeySelector(fmt.Sprintf("/m/%03d", i%50)), client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if i%20 == 0 {
			v, err := m.Wait(ctx, revision)
			if err != nil {
				t.Fatal(err)
			}
			sameAs(t, ctx, writer, v, "/m/")
		}
	}
	sameAs(t, ctx, writer, old, "/m/") // a view does not change
	// What touches no key of the selector moves the mirror too.
	r, err := writer.Put(ctx, "/other", nil, client.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := m.Wait(ctx, r.Revision)
	if err != nil {
		t.Fatal(err)
	}
	sameAs(t, ctx, writer, v, "/m/")
	for r := range v.Records {
		if string(r.Key) < "/m/" {
			t.Fatalf("%s is in the mirror", r.Key)
		}
	}

	// The node is away; when it is back, history is compacted before the mirror resumes.
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, dir, "")
	other := newClient(t, n.Addr())
	last := uint64(0)
	for i := range 10 {
		r, err := other.Put(ctx, "/m/after", fmt.Appendf(nil, "%d", i), client.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = r.Revision
	}
	// The report of the node that was away counts no more.
	if _, err := other.SetClusterConfig(ctx, &messages.ClusterConfig{ConsumerLagMax: 1}, "consumer_lag_max"); err != nil {
		t.Fatal(err)
	}
	if compact, err := other.Compact(ctx, last); err != nil || compact != last {
		t.Fatalf("compacted to %d of %d, %v", compact, last, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, dir, address)
	if v, err = m.Wait(ctx, last); err != nil {
		t.Fatal(err)
	}
	sameAs(t, ctx, newClient(t, n.Addr()), v, "/m/")
	mu.Lock()
	defer mu.Unlock()
	if m.Lists() != 2 || !updates[len(updates)-1].Relisted && !slices.ContainsFunc(updates[1:], func(u mirror.Update) bool { return u.Relisted }) {
		t.Fatalf("listed %d times", m.Lists())
	}
}

// A consumer goes on where its cursor stands: over its own restarts, failures of its
// handler and restarts of the node, with every revision whole, in order, none missing.
func TestConsumer(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, "")
	address := n.Addr()
	c := newClient(t, address)
	ctx := testContext(t)
	put := func(i int) uint64 {
		t.Helper()
		r, err := c.PutMany(ctx, client.PutOf(fmt.Sprintf("/q/%d", i), nil, client.PutOptions{}), client.PutOf("/q/x", nil, client.PutOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		return r.Revision
	}
	put(-1) // before the consumer
	failed := errors.New("the handler failed")
	opts := consumer.Options{Checkpoint: -1, Away: time.Minute}
	var got []uint64
	run := func(failAt, stopAt uint64) error {
		run, stop := context.WithCancel(ctx)
		defer stop()
		return consumer.Run(run, c, "queue", client.PrefixSelector("/q/"), opts, func(_ context.Context, r consumer.Revision) error {
			if len(r.Events) != 2 || !r.Last {
				t.Errorf("revision %d came with %d events", r.Revision, len(r.Events))
			}
			if r.Revision == failAt {
				return failed
			}
			got = append(got, r.Revision)
			if r.Revision == stopAt {
				stop()
			}
			return nil
		})
	}
	started := make(chan uint64, 1)
	opts.OnStart = func(after uint64) { started <- after }
	var want []uint64
	done := make(chan error, 1)
	go func() { done <- run(0, 4) }()
	if after := <-started; after != 1 {
		t.Fatalf("begins after %d", after)
	}
	opts.OnStart = nil
	for i := range 3 {
		want = append(want, put(i)) // 2, 3, 4
	}
	if err := <-done; messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
		t.Fatal(err)
	}
	for i := range 3 {
		want = append(want, put(10+i)) // 5, 6, 7: nobody listens
	}
	// The cursor holds history back.
	if compact, err := c.Compact(ctx, 7); err != nil || compact > 4 {
		t.Fatalf("compacted to %d, %v", compact, err)
	}
	if err := run(6, 0); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	startNode(t, dir, address)
	if err := run(0, 7); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	cursors, err := c.Cursors(ctx)
	if err != nil || len(cursors) != 1 || cursors[0].AfterRevision != 7 {
		t.Fatal(cursors, err)
	}
	// A cursor that is gone, with the log compacted: it is told, not skipped.
	put(20)
	if _, err := c.Revoke(ctx, cursors[0].LeaseId); err != nil {
		t.Fatal(err)
	}
	// What the node reported of the watch that has ended holds it for a moment more.
	for compact := uint64(0); compact != 8; {
		var err error
		if compact, err = c.Compact(ctx, 8); err != nil {
			t.Fatalf("compacted to %d: %v", compact, err)
		}
	}
	opts.After = 7
	if err := run(0, 0); messages.CodeOf(err) != messages.Code_CODE_COMPACTED {
		t.Fatal(err)
	}
}
