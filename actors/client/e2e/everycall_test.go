package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/election"
	"github.com/concord-kv/concord/actors/client/fence"
	"github.com/concord-kv/concord/actors/client/flight"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/mirror"
	"github.com/concord-kv/concord/actors/client/mutex"
	"github.com/concord-kv/concord/actors/client/registration"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

type call struct {
	name string
	do   func(ctx context.Context) error
}

// everyCall is each call of the SDK that takes a context and ends by itself, in an order
// in which all of them can be done once.
func everyCall(t *testing.T, r *recipetest.Resident) []call {
	t.Helper()
	ctx := recipetest.Context(t)
	s, closing := r.Session(0), r.Session(0)
	grant := func() uint64 {
		g, err := r.Grant(ctx, time.Hour, client.GrantOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return g.LeaseID
	}
	kept, revoked := grant(), grant()
	free, taken := mustOf(mutex.New(s, "free"))(t), mustOf(mutex.New(s, "taken"))(t)
	held := mustOf(taken.Lock(ctx))(t)
	open, led := mustOf(election.New(s, "open"))(t), mustOf(election.New(s, "led"))(t)
	term := mustOf(led.Campaign(ctx, nil))(t)
	registered := mustOf(registration.Open(ctx, r.Client, "/registered", nil, registration.Options{}))(t)
	copied := mustOf(mirror.Open(recipetest.Context(t), r.Client, client.PrefixSelector("/k"), mirror.Options{}))(t)
	t.Cleanup(copied.Close)
	p := mustOf(r.Put(ctx, "/k", []byte("1"), client.PutOptions{IdempotencyKey: "once"}))(t)
	all, key := client.PrefixSelector("/"), client.KeySelector("/k")
	index := &messages.IndexDefinition{Name: "i", Prefix: []byte("/k"), Extractor: &messages.Extractor{By: &messages.Extractor_Identity{Identity: true}}}
	config := messages.DefaultClusterConfig()

	return []call{
		{"Get", func(ctx context.Context) error { return second(r.Get(ctx, "/k", client.GetOptions{})) }},
		{"GetMany", func(ctx context.Context) error {
			return second(r.GetMany(ctx, []string{"/k", "/l"}, client.GetOptions{}))
		}},
		{"List", func(ctx context.Context) error { return second(r.List(ctx, all, client.ListOptions{})) }},
		{"Records", func(ctx context.Context) error {
			for _, err := range r.Records(ctx, all, client.ListOptions{}) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"History", func(ctx context.Context) error { return second(r.History(ctx, "/k", client.HistoryOptions{})) }},
		{"Changes", func(ctx context.Context) error {
			return second(r.Changes(ctx, all, client.AfterRevision(0), client.ChangesOptions{}))
		}},
		{"Revision", func(ctx context.Context) error { return second(r.Revision(ctx)) }},
		{"Status", func(ctx context.Context) error { return second(r.Status(ctx)) }},
		{"Watch", func(ctx context.Context) error {
			w, err := r.Watch(ctx, all, client.WatchOptions{From: 1})
			if err != nil {
				return err
			}
			defer w.Close()
			return second(w.Next(ctx))
		}},
		{"ListAndWatch", func(ctx context.Context) error {
			_, w, err := r.ListAndWatch(ctx, all, client.ListOptions{}, client.WatchOptions{})
			if err == nil {
				w.Close()
			}
			return err
		}},
		{"Put", func(ctx context.Context) error { return second(r.Put(ctx, "/l", nil, client.PutOptions{})) }},
		{"PutMany", func(ctx context.Context) error {
			return second(r.PutMany(ctx, client.PutOf("/m", nil, client.PutOptions{})))
		}},
		{"Create", func(ctx context.Context) error { return second(r.Create(ctx, "/n", nil, client.PutOptions{})) }},
		{"Replace", func(ctx context.Context) error { return second(r.Replace(ctx, "/n", nil, client.PutOptions{})) }},
		{"UpdateIf", func(ctx context.Context) error {
			return second(r.UpdateIf(ctx, "/k", p.Revision, []byte("2"), client.PutOptions{}))
		}},
		{"Touch", func(ctx context.Context) error { return second(r.Touch(ctx, "/l", time.Hour)) }},
		{"Txn", func(ctx context.Context) error {
			return second(client.If().Then(client.OpGet(key, 0)).Commit(ctx, r.Client))
		}},
		{"DeleteIf", func(ctx context.Context) error { return second(r.DeleteIf(ctx, "/l", 1, client.DeleteOptions{})) }},
		{"Delete", func(ctx context.Context) error {
			return second(r.Delete(ctx, client.KeySelector("/m"), client.DeleteOptions{}))
		}},
		{"Resolve", func(ctx context.Context) error { return second(r.Resolve(ctx, "once", client.ResolveOptions{})) }},
		{"Grant", func(ctx context.Context) error { return second(r.Grant(ctx, time.Hour, client.GrantOptions{})) }},
		{"KeepAlive", func(ctx context.Context) error { return second(r.KeepAlive(ctx, kept, 0)) }},
		{"LeaseInfo", func(ctx context.Context) error { return second(r.LeaseInfo(ctx, kept, client.LeaseInfoOptions{})) }},
		{"LeaseList", func(ctx context.Context) error { return second(r.LeaseList(ctx, client.LeaseListOptions{})) }},
		{"Revoke", func(ctx context.Context) error { return second(r.Revoke(ctx, revoked)) }},
		{"CreateIndex", func(ctx context.Context) error { return second(r.CreateIndex(ctx, index)) }},
		{"Indexes", func(ctx context.Context) error { return second(r.Indexes(ctx)) }},
		{"DropIndex", func(ctx context.Context) error { return second(r.DropIndex(ctx, "i")) }},
		{"OpenCursor", func(ctx context.Context) error { return second(r.OpenCursor(ctx, "c", kept, 1)) }},
		{"CheckpointCursor", func(ctx context.Context) error { return second(r.CheckpointCursor(ctx, "c", 1)) }},
		{"Cursors", func(ctx context.Context) error { return second(r.Cursors(ctx)) }},
		{"CloseCursor", func(ctx context.Context) error { return second(r.CloseCursor(ctx, "c")) }},
		{"Compact", func(ctx context.Context) error { return second(r.Compact(ctx, 1)) }},
		{"ClusterConfig", func(ctx context.Context) error { return second(r.ClusterConfig(ctx)) }},
		{"SetClusterConfig", func(ctx context.Context) error {
			return second(r.SetClusterConfig(ctx, config, "quota_bytes"))
		}},
		{"AuthStatus", func(ctx context.Context) error { return second(r.AuthStatus(ctx)) }},

		{"session.Open", func(ctx context.Context) error { return second(session.Open(ctx, r.Client, session.Options{})) }},
		{"Session.Check", func(ctx context.Context) error { return s.Check(ctx) }},
		{"Session.Release", func(ctx context.Context) error { return s.Release(ctx, "/nothing", 1) }},
		{"Session.Close", func(ctx context.Context) error { return closing.Close(ctx) }},
		{"Mutex.Lock", func(ctx context.Context) error { return second(free.Lock(ctx)) }},
		{"Mutex.TryLock", func(ctx context.Context) error { return second(taken.TryLock(ctx)) }},
		{"Mutex.LockWithin", func(ctx context.Context) error { return second(taken.LockWithin(ctx, time.Millisecond)) }},
		{"Held.Check", func(ctx context.Context) error { return held.Check(ctx) }},
		{"Held.Unlock", func(ctx context.Context) error { return held.Unlock(ctx) }},
		{"Mutex.Do", func(ctx context.Context) error {
			return taken.Do(ctx, func(context.Context, *mutex.Held) error { return nil })
		}},
		{"Election.Campaign", func(ctx context.Context) error { return second(open.Campaign(ctx, nil)) }},
		{"Election.Leader", func(ctx context.Context) error { return second(led.Leader(ctx)) }},
		{"Term.Proclaim", func(ctx context.Context) error { return term.Proclaim(ctx, []byte("v")) }},
		{"Term.Resign", func(ctx context.Context) error { return term.Resign(ctx) }},
		{"Flight.Do", func(ctx context.Context) error {
			return second(flight.New(s).Do(ctx, "f", func(context.Context, *flight.Run) ([]byte, error) { return nil, nil }))
		}},
		{"Registration.Update", func(ctx context.Context) error { return registered.Update(ctx, []byte("v")) }},
		{"Registration.Close", func(ctx context.Context) error { return registered.Close(ctx) }},
		{"registration.Open", func(ctx context.Context) error {
			return second(registration.Open(ctx, r.Client, "/again", nil, registration.Options{}))
		}},
		{"mirror.Open", func(ctx context.Context) error {
			m, err := mirror.Open(ctx, r.Client, key, mirror.Options{})
			if err == nil {
				m.Close()
			}
			return err
		}},
		{"fence.Key", func(ctx context.Context) error { return second(fence.Key("/fence").Do(ctx, r.Client, 7)) }},
	}
}

func second[T any](_ T, err error) error { return err }

func mustOf[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// oddContext cannot be a key of a map.
type oddContext struct {
	context.Context
	unhashable []int
}

// Any kind of context does, with every call: it works, and a cancel works.
func TestB050EveryCallTakesAnyContext(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range everyCall(t, r) {
		if err := c.do(oddContext{over, nil}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that is over: %v", c.name, err)
		}
		if err := c.do(oddContext{recipetest.Context(t), nil}); err != nil && !errors.Is(err, mutex.ErrBusy) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Nobody answers and the caller set no deadline: every call ends all the same, within
// the client's default, and says so in a way that programs can read.
func TestB053EveryCallEndsWithoutADeadline(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	calls := everyCall(t, r)
	r.Wire.Drop(true, true)
	var mu sync.Mutex
	var waiting []string
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, c := range calls {
		waiting = append(waiting, c.name)
	}
	for _, c := range calls {
		wg.Go(func() {
			err := c.do(context.Background())
			var e *messages.Error
			if !errors.As(err, &e) && !errors.Is(err, mutex.ErrBusy) && !errors.Is(err, lease.ErrLost) && !errors.Is(err, lease.ErrEnded) {
				t.Errorf("%s: %v", c.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			waiting = slices.DeleteFunc(waiting, func(s string) bool { return s == c.name })
		})
	}
	go func() { wg.Wait(); close(done) }()
	const attempts = 60 // of a second each, a ttl; the client's default is 5 s, and some calls are several
	for range attempts {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond): // let them begin what comes next
			r.Clock.Jump(time.Second)
		}
	}
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		mu.Lock()
		defer mu.Unlock()
		t.Fatal("still waiting: ", fmt.Sprint(waiting))
	}
}
