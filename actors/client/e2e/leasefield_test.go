package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// Numbers that callers choose are aliases, of which 0 is none and each live one is
// unique; the ids themselves are the cluster's and never come again, also after a
// restart.
func TestB019OddLeaseIDs(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, "")
	address := n.Addr()
	c := newClient(t, address)
	ctx := testContext(t)
	seen := map[uint64]bool{}
	grant := func(alias int64) uint64 {
		t.Helper()
		g, err := c.Grant(ctx, time.Hour, client.GrantOptions{Alias: uint64(alias)})
		if err != nil {
			t.Fatalf("alias %d: %v", alias, err)
		}
		if g.LeaseID == 0 || seen[g.LeaseID] {
			t.Fatalf("lease %d twice", g.LeaseID)
		}
		seen[g.LeaseID] = true
		return g.LeaseID
	}
	ids := []uint64{grant(0), grant(0), grant(1), grant(1<<63 - 1)}
	if _, err := c.Grant(ctx, time.Hour, client.GrantOptions{Alias: 1}); messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
		t.Fatalf("the same alias again: %v", err)
	}
	for _, id := range []uint64{0, 1<<64 - 1} {
		if _, err := c.Put(ctx, "/none", nil, client.PutOptions{LeaseID: id}); id != 0 && messages.CodeOf(err) != messages.Code_CODE_UNKNOWN_LEASE {
			t.Fatalf("lease %d: %v", id, err)
		}
	}
	for _, id := range ids {
		if _, err := c.Put(ctx, fmt.Sprint("/k/", id), nil, client.PutOptions{LeaseID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	startNode(t, dir, address)
	for _, id := range ids {
		l, err := c.LeaseInfo(ctx, id, client.LeaseInfoOptions{Keys: true})
		if err != nil || len(l.Keys) != 1 {
			t.Fatalf("lease %d: %v, %v", id, l, err)
		}
	}
	grant(0)
	if _, err := c.Revoke(ctx, ids[2]); err != nil {
		t.Fatal(err)
	}
	grant(1) // free again, and another id
}

// Thousands of leases come and go with their keys: nothing of them stays.
func TestB025NothingStaysOfRevokedLeases(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	before, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 50)
	for i := range cap(errs) {
		go func() {
			errs <- func() error {
				for j := range 40 {
					g, err := c.Grant(ctx, time.Hour, client.GrantOptions{})
					if err != nil {
						return err
					}
					for k := range 3 {
						if _, err := c.Put(ctx, fmt.Sprintf("/%d/%d/%d", i, j, k), nil, client.PutOptions{LeaseID: g.LeaseID}); err != nil {
							return err
						}
					}
					if keys, err := c.Revoke(ctx, g.LeaseID); err != nil || keys != 3 {
						return fmt.Errorf("%d keys, %w", keys, err)
					}
				}
				return nil
			}()
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	after, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if after.Leases != before.Leases+1 || after.Keys != 0 { // the client's own session
		t.Fatalf("%d leases, %d keys; before %d leases", after.Leases, after.Keys, before.Leases)
	}
}

// Connections break off in every phase of a keep-alive: the node keeps nothing of them.
func TestB051BrokenKeepAlives(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	g, err := w.Admin().Grant(ctx, time.Hour, client.GrantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	phases := []func(r *recipetest.Resident) (release func()){
		func(r *recipetest.Resident) func() { return r.Wire.Hold() }, // the answer is under way
		func(r *recipetest.Resident) func() { r.Wire.Drop(true, false); return func() {} },
		func(r *recipetest.Resident) func() { r.Wire.Drop(false, true); return func() {} },
		func(*recipetest.Resident) func() { return func() {} }, // it may just be there
	}
	round := func(i int) {
		r := w.Client(recipetest.Way)
		if _, err := r.KeepAlive(ctx, g.LeaseID, 0); err != nil {
			t.Fatal(err)
		}
		release := phases[i%len(phases)](r)
		sent := make(chan struct{}, 16)
		r.Wire.OnSend(func(m *messages.ClientMessage) {
			if m.GetFrame() != nil {
				select {
				case sent <- struct{}{}:
				default:
				}
			}
		})
		gone, cancel := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = r.KeepAlive(gone, g.LeaseID, 0)
		}()
		recipetest.Wait(t, sent, "the keep-alive")
		r.Wire.Refuse(true) // and the client is gone
		cancel()
		<-over
		release()
		_ = r.Close()
	}
	for i := range phases {
		round(i)
	}
	goroutines := runtime.NumGoroutine()
	const rounds = 60
	for i := range rounds {
		round(i)
	}
	recipetest.Eventually(t, "all is as before", func() bool { return runtime.NumGoroutine() <= goroutines+10 })
	recipetest.Eventually(t, "nobody but the operator is connected", func() bool {
		s, err := w.Admin().Status(ctx)
		return err == nil && s.Clients == 1 && s.Watchers == 0
	})
	if l, err := w.Admin().LeaseInfo(ctx, g.LeaseID, client.LeaseInfoOptions{}); err != nil || l.Renewals < rounds {
		t.Fatal(l, err)
	}
}

// A key without a ttl is the same however that is said, and lives on.
func TestB212NoTTLHasOneForm(t *testing.T) {
	n := startNode(t, t.TempDir(), "")
	c := newClient(t, n.Addr())
	ctx := testContext(t)
	put := func(key string, f func() error) {
		t.Helper()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	put("/k1", func() error { _, err := c.Put(ctx, "/k1", []byte("v"), client.PutOptions{}); return err })
	put("/k2", func() error {
		_, err := c.Put(ctx, "/k2", []byte("v"), client.PutOptions{TTL: 0, LeaseID: 0})
		return err
	})
	put("/k3", func() error {
		_, err := c.PutMany(ctx, client.PutOf("/k3", []byte("v"), client.PutOptions{}))
		return err
	})
	put("/k4", func() error {
		_, err := client.If().Then(client.OpPut("/k4", []byte("v"), client.PutOptions{})).Commit(ctx, c)
		return err
	})
	put("/k5", func() error { // a ttl that is taken back
		if _, err := c.Put(ctx, "/k5", []byte("v"), client.PutOptions{TTL: time.Hour}); err != nil {
			return err
		}
		if _, err := c.Delete(ctx, client.KeySelector("/k5"), client.DeleteOptions{}); err != nil {
			return err
		}
		_, err := c.Put(ctx, "/k5", []byte("v"), client.PutOptions{})
		return err
	})
	var first []byte
	for i := 1; i <= 5; i++ {
		g, err := c.Get(ctx, fmt.Sprint("/k", i), client.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := proto.Clone(g.Record).(*messages.Record)
		r.Key, r.CreateRevision, r.ModRevision = nil, 0, 0
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if !bytes.Equal(b, first) || r.LeaseId != 0 {
			t.Fatalf("/k%d: %v", i, g.Record)
		}
	}
	if _, err := c.Put(ctx, "/k6", nil, client.PutOptions{TTL: -time.Second}); messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
		t.Fatalf("a negative ttl: %v", err)
	}
}

// A client of the same name begins anew: its first call is not answered with what the
// first call of the one before came to, also when that one never closed.
func TestB225SameNameAfterARestart(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	for i := range 3 {
		r := w.Client(recipetest.Way) // named after the test
		key, value := fmt.Sprint("/k/", i), fmt.Sprint("v", i)
		p, err := r.Put(ctx, key, []byte(value), client.PutOptions{})
		if err != nil || p.Revision != uint64(i+1) {
			t.Fatal(p, err)
		}
		r.Wire.Refuse(true) // a crash: nobody hears of its end
	}
}

// A session of a client that is closed ends with it, whatever it was doing.
func TestB226CloseWithEverythingOpen(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	watch, err := r.Watch(ctx, client.PrefixSelector("/"), client.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	release := r.Wire.Hold()
	call := make(chan error, 1)
	go func() {
		_, err := r.Get(ctx, "/k", client.GetOptions{})
		call <- err
	}()
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }()
	if err := recipetest.Wait(t, closed, "Close"); err != nil {
		t.Fatal(err)
	}
	release()
	if err := recipetest.Wait(t, call, "the call"); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
		t.Fatal(err)
	}
	for range 3 { // for good, and never an empty batch
		if b, err := watch.Next(ctx); err == nil {
			t.Fatal(b)
		}
	}
	recipetest.Wait(t, s.Lease().Context().Done(), "the holder's signal")
	first := s.Lease().Err()
	s.Abandon()
	if !errors.Is(s.Lease().Err(), first) {
		t.Fatal("the first cause was not kept")
	}
	if _, err := session.Open(ctx, r.Client, session.Options{}); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
		t.Fatal(err)
	}
}
