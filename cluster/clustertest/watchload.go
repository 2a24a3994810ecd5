package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/watchcheck"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// WatchLoad writes single keys, several keys in one revision, and deletes, and keeps what
// was acknowledged.
type WatchLoad struct {
	t      testing.TB
	Truth  *watchcheck.Truth
	writes atomic.Int64
	cancel context.CancelFunc
	group  sync.WaitGroup
}

// StartWatchLoad begins to write with some clients, each with a write every pace.
func StartWatchLoad(t testing.TB, seed uint64, clients int, pace time.Duration, dial func() *client.Client) *WatchLoad {
	ctx, cancel := context.WithCancel(t.Context())
	l := &WatchLoad{t: t, Truth: watchcheck.NewTruth(), cancel: cancel}
	for i := range clients {
		c := dial()
		l.group.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := 0; ctx.Err() == nil; n++ {
				l.write(c, r, fmt.Sprintf("%d.%d", i, n))
				pause(ctx, pace)
			}
		})
	}
	t.Cleanup(l.Stop)
	return l
}

// Stop ends the clients, each after its write.
func (l *WatchLoad) Stop() {
	l.cancel()
	l.group.Wait()
}

func (l *WatchLoad) write(c *client.Client, r *rand.Rand, value string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	key := func() string { return fmt.Sprintf("/%c/%02d", "ab"[r.IntN(2)], r.IntN(20)) }
	var (
		revision uint64
		changes  []watchcheck.Change
		err      error
	)
	switch p := r.IntN(10); {
	case p < 6:
		k := key()
		var res client.PutResult
		res, err = c.Put(ctx, k, []byte(value), client.PutOptions{})
		revision, changes = res.Revision, []watchcheck.Change{{Key: k, Value: value}}
	case p < 8:
		var puts []*messages.Put
		for range 2 + r.IntN(4) {
			k := key()
			puts = append(puts, client.PutOf(k, []byte(value), client.PutOptions{}))
			changes = append(changes, watchcheck.Change{Key: k, Value: value})
		}
		var res client.PutManyResult
		res, err = c.PutMany(ctx, puts...)
		revision = res.Revision
	default:
		k := key()
		var res client.DeleteResult
		if res, err = c.Delete(ctx, client.KeySelector(k), client.DeleteOptions{}); res.Deleted == 0 {
			revision = 0 // it took none
		} else {
			revision, changes = res.Revision, []watchcheck.Change{{Key: k, Deleted: true}}
		}
	}
	switch {
	case err != nil:
		l.t.Logf("write %s: %v", value, err)
	case revision != 0:
		if err := l.Truth.Wrote(revision, changes...); err != nil {
			l.t.Error(err)
		}
		l.writes.Add(1)
	}
}

// Wait waits for so many more acknowledged writes.
func (l *WatchLoad) Wait(n int64) {
	l.t.Helper()
	ctx := Deadline(l.t, 2*time.Minute)
	for until := l.writes.Load() + n; l.writes.Load() < until; pause(ctx, 5*time.Millisecond) {
		if ctx.Err() != nil {
			l.t.Fatalf("%d writes, not %d", l.writes.Load(), until)
		}
	}
}

// WatchKind is a way to watch.
type WatchKind struct {
	Name   string
	Prefix string
	client.WatchOptions
	// Reopen gives the watch up after so many batches and begins another, with another
	// client, where it had come to. 0: never.
	Reopen int
	// Pause of the consumer after each batch.
	Pause time.Duration
}

// WatchKinds are those that tests run side by side.
var WatchKinds = []WatchKind{
	{Name: "all"},
	{Name: "prefix", Prefix: "/a/", WatchOptions: client.WatchOptions{Progress: true}},
	{Name: "prev", Prefix: "/b/", WatchOptions: client.WatchOptions{Prev: true}},
	{Name: "keys only", WatchOptions: client.WatchOptions{KeysOnly: true}},
	{Name: "puts", WatchOptions: client.WatchOptions{Types: []messages.EventType{messages.EventType_EVENT_TYPE_PUT}, Progress: true}},
	{Name: "little credit", WatchOptions: client.WatchOptions{CreditEvents: 3}},
	{Name: "reopened", Reopen: 20, WatchOptions: client.WatchOptions{Progress: true}},
	{Name: "slow", Pause: 3 * time.Millisecond, WatchOptions: client.WatchOptions{CreditEvents: 10}},
	{Name: "idle", Prefix: "/nobody", WatchOptions: client.WatchOptions{Progress: true}},
}

// Follower runs one watch and checks it.
type Follower struct {
	kind   WatchKind
	check  *watchcheck.Check
	to     atomic.Uint64 // stop once it has come so far
	done   chan struct{}
	err    error
	Reopen int // how often it was opened again
}

// Follow starts a follower of all history.
func Follow(t testing.TB, kind WatchKind, truth *watchcheck.Truth, dial func() *client.Client) *Follower {
	return FollowFrom(t, kind, 1, truth, dial)
}

// FollowFrom starts a follower at a revision.
func FollowFrom(t testing.TB, kind WatchKind, from uint64, truth *watchcheck.Truth, dial func() *client.Client) *Follower {
	f := &Follower{kind: kind, done: make(chan struct{})}
	f.check = watchcheck.New(kind.Name, truth, from, watchcheck.Options{
		Selects:  func(k string) bool { return strings.HasPrefix(k, kind.Prefix) },
		PutsOnly: len(kind.Types) == 1, KeysOnly: kind.KeysOnly,
	})
	f.to.Store(^uint64(0))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); <-f.done })
	go func() {
		defer close(f.done)
		for f.err == nil && f.check.Next() <= f.to.Load() && ctx.Err() == nil {
			f.err = f.run(ctx, dial())
			f.Reopen++
		}
	}()
	return f
}

func (f *Follower) run(ctx context.Context, c *client.Client) error {
	opts := f.kind.WatchOptions
	opts.From = f.check.Next()
	opts.ProgressMs = 200
	// Without progress a watch of what nobody writes never learns that it is done.
	opts.Progress = true
	w, err := c.Watch(ctx, client.PrefixSelector(f.kind.Prefix), opts)
	if err != nil {
		return err
	}
	defer w.Close()
	for n := 1; f.check.Next() <= f.to.Load(); n++ {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		b, err := w.Next(short)
		late := short.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err != nil && late && messages.CodeOf(err) == messages.Code_CODE_CANCELLED:
			continue // look whether there is an end by now
		case err != nil:
			return err
		}
		if err := f.check.Batch(b); err != nil {
			return err
		}
		if n == f.kind.Reopen {
			return nil
		}
		if f.kind.Pause > 0 {
			pause(ctx, f.kind.Pause)
		}
	}
	return nil
}

// Finish waits until the follower has come to a revision, and verifies all of it.
func (f *Follower) Finish(t testing.TB, revision uint64) {
	t.Helper()
	f.to.Store(revision)
	select {
	case <-f.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("watch %s has not come to revision %d", f.kind.Name, revision)
	}
	if f.err != nil {
		t.Errorf("watch %s at revision %d: %v", f.kind.Name, f.check.Next()-1, f.err)
		return
	}
	if err := f.check.Verify(revision); err != nil {
		t.Error(err)
	}
}
