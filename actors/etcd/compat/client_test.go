package compat

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/leasing"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.etcd.io/etcd/client/v3/ordering"
	"go.uber.org/zap"
)

// client returns etcd's own client of one node.
func client(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: time.Minute, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func need[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestSession: a session's lease is kept alive, and its keys go with it.
func TestSession(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, time.Minute)
	s := need(concurrency.NewSession(c, concurrency.WithTTL(2)))(t)
	need(c.Put(ctx, "mine", "1", clientv3.WithLease(s.Lease())))(t)
	watch := c.Watch(ctx, "mine")
	select {
	case <-s.Done():
		t.Fatal("the session ended")
	case <-time.After(3 * time.Second): // longer than the lease, if nobody kept it alive
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for w := range watch {
		for _, e := range w.Events {
			if e.Type == clientv3.EventTypeDelete {
				return
			}
		}
	}
	t.Fatal("the key stayed")
}

// TestMutex: sessions take turns, and a counter that is read and written loses nothing.
func TestMutex(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, 2*time.Minute)
	const workers, turns = 4, 5
	var wg sync.WaitGroup
	count := 0 // guarded by the lock that is tested
	for range workers {
		wg.Go(func() {
			s, err := concurrency.NewSession(c)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			m := concurrency.NewMutex(s, "/lock")
			for range turns {
				if err := m.Lock(ctx); err != nil {
					t.Error(err)
					return
				}
				count++
				if err := m.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if count != workers*turns {
		t.Fatalf("%d turns of %d", count, workers*turns)
	}
	a, b := need(concurrency.NewSession(c))(t), need(concurrency.NewSession(c))(t)
	if err := concurrency.NewMutex(a, "/try").TryLock(ctx); err != nil {
		t.Fatal(err)
	}
	if err := concurrency.NewMutex(b, "/try").TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
		t.Fatalf("a lock that is held: %v", err)
	}
}

// TestElection: one leads, what it proclaims is observed, and the next one follows.
func TestElection(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, time.Minute)
	first := concurrency.NewElection(need(concurrency.NewSession(c))(t), "/boss")
	second := concurrency.NewElection(need(concurrency.NewSession(c))(t), "/boss")
	if err := first.Campaign(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	observed := second.Observe(ctx)
	next := func(want string) {
		t.Helper()
		for r := range observed {
			if got := string(r.Kvs[0].Value); got == want {
				return
			}
		}
		t.Fatalf("%q was not observed", want)
	}
	next("first")
	if err := first.Proclaim(ctx, "still first"); err != nil {
		t.Fatal(err)
	}
	next("still first")
	won := make(chan error, 1)
	go func() { won <- second.Campaign(ctx, "second") }()
	if err := first.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-won; err != nil {
		t.Fatal(err)
	}
	next("second")
}

// TestSTM: transfers between accounts conflict and the sum stays.
func TestSTM(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, 2*time.Minute)
	const accounts, each = 5, 100
	for i := range accounts {
		need(c.Put(ctx, fmt.Sprint("account", i), fmt.Sprint(each)))(t)
	}
	number := func(s string) (n int) {
		_, _ = fmt.Sscan(s, &n) // an absent account has 0
		return n
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 8 {
				from, to := fmt.Sprint("account", (w+i)%accounts), fmt.Sprint("account", (w+2*i+1)%accounts)
				_, err := concurrency.NewSTM(c, func(s concurrency.STM) error {
					a, b := number(s.Get(from)), number(s.Get(to))
					if from != to {
						s.Put(from, fmt.Sprint(a-1))
						s.Put(to, fmt.Sprint(b+1))
					}
					return nil
				}, concurrency.WithAbortContext(ctx), concurrency.WithIsolation(concurrency.SerializableSnapshot))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, kv := range need(c.Get(ctx, "account", clientv3.WithPrefix()))(t).Kvs {
		sum += number(string(kv.Value))
	}
	if sum != accounts*each {
		t.Fatalf("the accounts hold %d, not %d", sum, accounts*each)
	}
}

// TestWrappers: leasing, namespace and ordering work on us.
func TestWrappers(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, time.Minute)
	kv, closeLeasing, err := leasing.NewKV(c, "leases/")
	if err != nil {
		t.Fatal(err)
	}
	defer closeLeasing()
	other, closeOther, err := leasing.NewKV(c, "leases/")
	if err != nil {
		t.Fatal(err)
	}
	defer closeOther()
	need(kv.Put(ctx, "k", "one"))(t)
	for range 2 { // the second one is served from the lease
		if got := string(need(kv.Get(ctx, "k"))(t).Kvs[0].Value); got != "one" {
			t.Fatalf("leasing: %q", got)
		}
	}
	need(other.Put(ctx, "k", "two"))(t)
	if got := string(need(kv.Get(ctx, "k"))(t).Kvs[0].Value); got != "two" {
		t.Fatalf("leasing, after another's put: %q", got)
	}

	ns := namespace.NewKV(c.KV, "ns/")
	need(ns.Put(ctx, "k", "named"))(t)
	if got := string(need(c.Get(ctx, "ns/k"))(t).Kvs[0].Value); got != "named" {
		t.Fatalf("namespace: %q", got)
	}
	if got := need(ns.Get(ctx, "", clientv3.WithPrefix()))(t); len(got.Kvs) != 1 || string(got.Kvs[0].Key) != "k" {
		t.Fatalf("namespace: %v", got.Kvs)
	}

	ordered := ordering.NewKV(c.KV, func(clientv3.Op, clientv3.OpResponse, int64) error { return ordering.ErrNoGreaterRev })
	need(ordered.Put(ctx, "o", "1"))(t)
	for range 20 {
		need(ordered.Get(ctx, "o", clientv3.WithSerializable()))(t)
	}
}

// TestWatchOptions: progress, fragments, filters, previous values, compaction.
func TestWatchOptions(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx := deadline(t, 2*time.Minute)
	w := c.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
	if r := <-w; !r.Created {
		t.Fatalf("not created: %v", r)
	}
	puts := c.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithRev(2))
	need(c.Put(ctx, "k1", "a"))(t)
	need(c.Put(ctx, "k1", "b"))(t)
	last := need(c.Delete(ctx, "k1"))(t).Header.Revision
	var events []*clientv3.Event
	for len(events) < 3 {
		events = append(events, (<-w).Events...)
	}
	if events[0].PrevKv != nil || string(events[1].PrevKv.Value) != "a" || string(events[2].PrevKv.Value) != "b" || events[2].Type != clientv3.EventTypeDelete {
		t.Fatalf("events: %v", events)
	}
	var filtered []*clientv3.Event
	for len(filtered) < 2 {
		filtered = append(filtered, (<-puts).Events...)
	}
	if len(filtered) != 2 {
		t.Fatalf("filtered: %v", filtered)
	}
	for {
		if err := c.RequestProgress(ctx); err != nil {
			t.Fatal(err)
		}
		r := <-w
		if !r.IsProgressNotify() {
			t.Fatalf("not progress: %v", r)
		}
		if r.Header.Revision >= last {
			break
		}
	}

	need(c.Compact(ctx, last))(t)
	r := <-c.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithRev(2))
	if !errors.Is(r.Err(), rpctypes.ErrCompacted) || r.CompactRevision != last {
		t.Fatalf("watch of what was compacted: %v, at %d", r.Err(), r.CompactRevision)
	}
	if _, err := c.Get(ctx, "k1", clientv3.WithRev(2)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Fatal(err)
	}
	if _, err := c.Compact(ctx, last); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Fatal(err)
	}
	if _, err := c.Compact(ctx, last+10); !errors.Is(err, rpctypes.ErrFutureRev) {
		t.Fatal(err)
	}
}

// TestManyWatches: one stream has more watches than a session of ours takes.
func TestManyWatches(t *testing.T) {
	c := client(t, startNode(t).EtcdAddr())
	ctx, cancel := context.WithCancel(deadline(t, 2*time.Minute))
	defer cancel()
	const n = 250
	watches := make([]clientv3.WatchChan, n)
	for i := range watches {
		watches[i] = c.Watch(ctx, fmt.Sprint("w", i), clientv3.WithCreatedNotify())
		if r := <-watches[i]; !r.Created {
			t.Fatal(r)
		}
	}
	for i := range watches {
		need(c.Put(ctx, fmt.Sprint("w", i), "x"))(t)
	}
	for i, w := range watches {
		if r := <-w; len(r.Events) != 1 || string(r.Events[0].Kv.Key) != fmt.Sprint("w", i) {
			t.Fatalf("watch %d: %v", i, r)
		}
	}
}
