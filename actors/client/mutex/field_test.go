package mutex_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/fence"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/mutex"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// Faults that users of such systems reported, each as a test of its kind.

func lostBy(t testing.TB, err error, cause error) {
	t.Helper()
	if !errors.Is(err, lease.ErrLost) || cause != nil && !errors.Is(err, cause) {
		t.Fatalf("%v, want a loss by %v", err, cause)
	}
}

func awaitLoss(t testing.TB, h *mutex.Held) error {
	t.Helper()
	recipetest.Wait(t, h.Lease().Context().Done(), "the holder's signal")
	return h.Lease().Err()
}

// A holder that was paused past its lease sees the loss before it runs further, from
// the clock alone, and its late write is refused.
func TestB044PausedHolderWritesBesideTheNewOne(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r1 := w.Client(recipetest.Way)
	h1 := lock(t, newMutex(t, r1.Session(0), "pause"))
	next := waiter(t, w, ctx, newMutex(t, w.Client(recipetest.Way).Session(0), "pause"))

	r1.Clock.Freeze() // nothing of the process runs
	r1.Wire.Drop(true, true)
	revoke(t, w, "pause") // the cluster's clock may not jump: it would end the waiter too
	got := recipetest.Wait(t, next, "the next holder")
	if got.err != nil {
		t.Fatal(got.err)
	}
	h2, key, memory := got.held, fence.Key("/fence/pause"), &fence.Memory{}
	if h2.Token() <= h1.Token() {
		t.Fatal("the token did not rise")
	}
	if _, err := key.Do(ctx, w.Admin(), h2.Token(), client.OpPut("/data", []byte("2"), client.PutOptions{})); err != nil {
		t.Fatal(err)
	}
	if err := memory.Do("pause", h2.Token(), func() error { return nil }); err != nil {
		t.Fatal(err)
	}

	r1.Clock.Jump(2 * time.Minute)
	lostBy(t, h1.Lease().Err(), session.ErrDeadline)
	if h1.Lease().Context().Err() == nil {
		t.Fatal("Err says lost and the signal did not fire")
	}
	// It did not look, and writes.
	_, err := key.Do(ctx, w.Admin(), h1.Token(), client.OpPut("/data", []byte("1"), client.PutOptions{}))
	var stale *fence.StaleError
	if !errors.As(err, &stale) || stale.Highest != h2.Token() || !errors.Is(err, fence.ErrStale) {
		t.Fatal(err)
	}
	if err := memory.Do("pause", h1.Token(), func() error { t.Error("it ran"); return nil }); !errors.Is(err, fence.ErrStale) {
		t.Fatal(err)
	}
	x, err := client.If(h1.Compare()).Then(client.OpPut("/data", []byte("1"), client.PutOptions{})).Commit(ctx, w.Admin())
	if err != nil || x.Succeeded {
		t.Fatal(x, err)
	}
	r1.Clock.Thaw()
	r1.Wire.Drop(false, false)
	unlock(t, h2)
}

// revoke ends the lease of a lock's holder, as its expiry would.
func revoke(t testing.TB, w *recipetest.Town, name string) {
	t.Helper()
	var first *messages.Record
	for r, err := range w.Admin().Records(recipetest.Context(t), client.PrefixSelector(prefix(name)), client.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if first == nil || r.CreateRevision < first.CreateRevision {
			first = r
		}
	}
	if first == nil {
		t.Fatal("nobody holds it")
	}
	if _, err := w.Admin().Revoke(recipetest.Context(t), first.LeaseId); err != nil {
		t.Fatal(err)
	}
}

// Each acquisition is kept alive for itself: after a loss the next one of the same
// client works, and the first keeps its first cause.
func TestB045ReacquiredLockIsNeverRenewed(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	first := lock(t, newMutex(t, r.Session(0), "again"))
	revoke(t, w, "again")
	r.Pass(20 * time.Second) // to the next keep-alive
	cause := awaitLoss(t, first)
	s := r.Session(0)
	second := lock(t, newMutex(t, s, "again"))
	for range 9 { // three ttls
		r.Pass(20 * time.Second)
		recipetest.Eventually(t, "it is renewed", func() bool { return s.Remaining() > 35*time.Second })
	}
	if err := second.Lease().Err(); err != nil {
		t.Fatal(err)
	}
	if l, err := w.Admin().LeaseInfo(recipetest.Context(t), s.LeaseID(), client.LeaseInfoOptions{}); err != nil || l.Renewals < 3 {
		t.Fatal(l, err)
	}
	lostBy(t, cause, nil)
	if first.Lease().Err() != cause {
		t.Fatal(first.Lease().Err(), cause)
	}
	unlock(t, second)
}

type oddContext struct {
	context.Context
	unhashable []int
}

func TestB050ContextOfUnusualType(t *testing.T) {
	w := recipetest.New(t)
	ctx := oddContext{recipetest.Context(t), nil}
	s, err := session.Open(ctx, w.Client(recipetest.Way).Client, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMutex(t, s, "odd")
	if err := m.Do(ctx, func(context.Context, *mutex.Held) error { return nil }); err != nil {
		t.Fatal(err)
	}
	h, err := m.TryLock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.LockWithin(ctx, 10*time.Millisecond); !errors.Is(err, mutex.ErrBusy) {
		t.Fatal(err)
	}
	if err := errors.Join(h.Check(ctx), h.Unlock(ctx), s.Close(ctx)); err != nil {
		t.Fatal(err)
	}
}

// Do frees the lock however its function ends.
func TestB054SessionOutlivesTheWork(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	m := newMutex(t, w.Client(recipetest.Way).Session(0), "work")
	free := func(how string) {
		t.Helper()
		if keys := w.Keys(prefix("work")); len(keys) != 0 {
			t.Fatal(how, keys)
		}
	}
	errWork := errors.New("work")
	if err := m.Do(ctx, func(context.Context, *mutex.Held) error { return errWork }); err != errWork {
		t.Fatal(err)
	}
	free("returned")
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic was changed")
			}
		}()
		_ = m.Do(ctx, func(context.Context, *mutex.Held) error { panic("boom") })
	}()
	free("panicked")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Do(ctx, func(context.Context, *mutex.Held) error { runtime.Goexit(); return nil })
	}()
	recipetest.Wait(t, done, "Goexit")
	free("ended its goroutine")
	caller, cancel := context.WithCancel(ctx)
	err := m.Do(caller, func(ctx context.Context, _ *mutex.Held) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if err != context.Canceled {
		t.Fatal(err)
	}
	free("cancelled")
}

// A waiter whose session ended is not granted when the holder leaves; the one behind it
// is.
func TestB061GrantedAlthoughTheWaiterExpired(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	h := lock(t, newMutex(t, w.Client(recipetest.Way).Session(0), "expired"))
	dead := w.Client(recipetest.Way)
	second := waiter(t, w, ctx, newMutex(t, dead.Session(0), "expired"))
	third := waiter(t, w, ctx, newMutex(t, w.Client(recipetest.Way).Session(0), "expired"))

	dead.Wire.Drop(true, true)
	dead.Clock.Jump(2 * time.Minute)
	got := recipetest.Wait(t, second, "the expired waiter")
	lostBy(t, got.err, session.ErrDeadline)
	unlock(t, h)
	if len(third) != 0 {
		t.Fatal("the key of the second still stands before the third")
	}
	revoke(t, w, "expired") // the second's lease ends
	if got = recipetest.Wait(t, third, "the third"); got.err != nil {
		t.Fatal(got.err)
	}
	unlock(t, got.held)
}

func TestB063OwnKeyDeleted(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	h := lock(t, newMutex(t, r.Session(0), "deleted"))
	holder := w.Keys(prefix("deleted"))[0]
	c := waiter(t, w, ctx, newMutex(t, w.Client(recipetest.Way).Session(0), "deleted"))
	for _, key := range w.Keys(prefix("deleted")) {
		if key != holder {
			w.Delete(key)
			// Created again by somebody else it is not the waiter's.
			if _, err := w.Admin().Put(ctx, key, nil, client.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := recipetest.Wait(t, c, "the waiter whose key was deleted")
	lostBy(t, got.err, nil)
	w.Delete(prefix("deleted"))
	lostBy(t, awaitLoss(t, h), nil)
	if err := h.Unlock(ctx); !errors.Is(err, lease.ErrLost) {
		t.Fatal("the unlock of a lock that was lost says", err)
	}
	// The session goes on.
	unlock(t, lock(t, newMutex(t, r.Session(0), "deleted")))
}

// A nil error means held, an error means nothing is left behind, wherever the cancel
// comes.
func TestB066CancelledLock(t *testing.T) {
	for _, kind := range []string{recipetest.Way} {
		t.Run(kind, func(t *testing.T) {
			w := recipetest.New(t)
			m := newMutex(t, w.Client(kind).Session(0), "cancel")
			over, cancel := context.WithCancel(context.Background())
			cancel()
			if h, err := m.Lock(over); !errors.Is(err, context.Canceled) || h != nil {
				t.Fatal(h, err)
			}
			if len(w.Keys(prefix("cancel"))) != 0 {
				t.Fatal("it left a key")
			}
			granted, refused := 0, 0
			for i := range 60 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*25*time.Microsecond)
				h, err := m.Lock(ctx)
				cancel()
				if err == nil {
					granted++
					if err := h.Lease().Err(); err != nil {
						t.Fatal(err)
					}
					unlock(t, h)
					continue
				}
				refused++
			}
			t.Log(granted, "granted,", refused, "cancelled")
			recipetest.Eventually(t, "nothing is left behind", func() bool { return len(w.Keys(prefix("cancel"))) == 0 })
			unlock(t, lock(t, m))
		})
	}
}

func TestB068TwoGoroutinesOfOneSession(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	s := w.Client(recipetest.Way).Session(0)
	var inside, total atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		m := newMutex(t, s, "shared")
		wg.Go(func() {
			err := m.Do(ctx, func(context.Context, *mutex.Held) error {
				if inside.Add(1) != 1 {
					t.Error("two are inside")
				}
				total.Add(1)
				inside.Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if total.Load() != 50 {
		t.Fatal(total.Load())
	}
}

// However a hold is lost, its holder is signalled once and keeps the first cause.
func TestB074EveryLossSignals(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	ways := map[string]struct {
		do    func(r *recipetest.Resident, s *session.Session, name string)
		cause error
	}{
		"key deleted":   {func(_ *recipetest.Resident, _ *session.Session, name string) { w.Delete(prefix(name)) }, nil},
		"lease revoked": {func(_ *recipetest.Resident, _ *session.Session, name string) { revoke(t, w, name) }, nil},
		"no quorum": {func(r *recipetest.Resident, _ *session.Session, _ string) {
			r.Wire.Refuse(true)
			r.Clock.Jump(time.Hour)
		}, session.ErrDeadline},
		"client closed": {func(r *recipetest.Resident, _ *session.Session, _ string) { _ = r.Close() },
			messages.NewError(messages.Code_CODE_CANCELLED, "")},
		"session closed": {func(_ *recipetest.Resident, s *session.Session, _ string) {
			if err := s.Close(ctx); err != nil {
				t.Error(err)
			}
		}, nil},
		"work stalled": {func(r *recipetest.Resident, s *session.Session, _ string) { r.Clock.Jump(45 * time.Second) }, nil},
	}
	for how, way := range ways {
		t.Run(how, func(t *testing.T) {
			r := w.Client(recipetest.Way)
			s, err := session.Open(ctx, r.Client, session.Options{TTL: time.Minute, ProgressWithin: 40 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			h := lock(t, newMutex(t, s, how))
			signals := make(chan error, 4)
			context.AfterFunc(h.Lease().Context(), func() { signals <- context.Cause(h.Lease().Context()) })
			way.do(r, s, how)
			if how == "lease revoked" {
				r.Clock.Jump(25 * time.Second) // to the next keep-alive
			}
			err = recipetest.Wait(t, signals, "the signal")
			lostBy(t, err, way.cause)
			s.Abandon()
			if h.Lease().Err() != err || len(signals) != 0 {
				t.Fatal(h.Lease().Err(), len(signals))
			}
		})
	}
}

// The cluster's lease decides, not a waiter's ttl.
func TestB076ContenderMeasuresWithItsOwnTTL(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	long := w.Client(recipetest.Way)
	lock(t, newMutex(t, long.Session(4*time.Minute), "ttl"))
	short := w.Client(recipetest.Way)
	s := short.Session(time.Minute)
	c := waiter(t, w, ctx, newMutex(t, s, "ttl"))
	long.Wire.Refuse(true) // crashed
	for range 6 {          // twice the contender's ttl, for the cluster and for it
		w.Clock.Jump(20 * time.Second)
		short.Pass(20 * time.Second)
		recipetest.Eventually(t, "the contender is kept alive", func() bool { return s.Remaining() > 35*time.Second })
	}
	if len(c) != 0 {
		t.Fatal("it took over before the holder's lease ended:", (<-c).err)
	}
	for len(c) == 0 { // the rest of the holder's ttl; the waiter's context bounds it
		w.Clock.Jump(10 * time.Second)
		short.Pass(10 * time.Second)
		recipetest.Eventually(t, "the contender is kept alive", func() bool { return s.Remaining() > 35*time.Second })
	}
	got := recipetest.Wait(t, c, "the contender")
	if got.err != nil {
		t.Fatal(got.err)
	}
	unlock(t, got.held)
}

// The holder knows by when it must have stopped, with time to do so, and what it does
// after the loss all the same is refused.
func TestB077StopsLate(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	s, err := session.Open(ctx, r.Client, session.Options{TTL: time.Minute, StopMargin: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	m := newMutex(t, s, "late")
	key := fence.Key("/fence/late")
	err = m.Do(ctx, func(_ context.Context, h *mutex.Held) error {
		if left := h.Remaining(); left <= 0 || left > 40*time.Second {
			t.Errorf("%v left", left)
		}
		r.Wire.Drop(true, true)
		r.Clock.Jump(40 * time.Second) // the margin is left
		awaitLoss(t, h)
		revoke(t, w, "late")
		next := lock(t, newMutex(t, w.Client(recipetest.Way).Session(0), "late"))
		defer unlock(t, next)
		if _, err := key.Do(ctx, w.Admin(), next.Token()); err != nil {
			t.Error(err)
		}
		_, err := key.Do(ctx, w.Admin(), h.Token(), client.OpPut("/late", nil, client.PutOptions{}))
		return err
	})
	lostBy(t, err, fence.ErrStale) // the loss carries what the work said
}

func TestB078ReleasedBeforeTheWorkStopped(t *testing.T) {
	w := recipetest.New(t)
	s := w.Client(recipetest.Way).Session(0)
	m := newMutex(t, s, "stop")
	ctx, cancel := context.WithCancel(context.Background())
	began, end := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	done := make(chan error, 1)
	go func() {
		done <- m.Do(ctx, func(ctx context.Context, _ *mutex.Held) error {
			close(began)
			<-ctx.Done()
			<-end // it takes its time
			ended.Store(true)
			return ctx.Err()
		})
	}()
	recipetest.Wait(t, began, "the work")
	next := waiter(t, w, recipetest.Context(t), newMutex(t, w.Client(recipetest.Way).Session(0), "stop"))
	cancel()
	if len(next) != 0 || len(w.Keys(prefix("stop"))) != 2 {
		t.Fatal("released while the work runs")
	}
	close(end)
	got := recipetest.Wait(t, next, "the next holder")
	if got.err != nil || !ended.Load() {
		t.Fatal(got.err, ended.Load())
	}
	unlock(t, got.held)
	if err := recipetest.Wait(t, done, "Do"); err != context.Canceled {
		t.Fatal(err)
	}
}

// A cancel is heeded though nobody answers, and nothing is granted after it.
func TestB080CancelDuringABlackout(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	m := newMutex(t, s, "blackout")
	h := lock(t, m)
	ctx, cancel := context.WithCancel(context.Background())
	waiting := waiter(t, w, ctx, m)
	r.Wire.Drop(true, true)
	asking := make(chan locking, 1)
	go func() {
		h, err := newMutex(t, s, "free").Lock(ctx)
		asking <- locking{h, err}
	}()
	cancel()
	for what, c := range map[string]<-chan locking{"waiting": waiting, "asking": asking} {
		if got := recipetest.Wait(t, c, what); !errors.Is(got.err, context.Canceled) || got.held != nil {
			t.Fatal(what, got.err)
		}
	}
	bounded, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := h.Unlock(bounded); err == nil {
		t.Fatal("nobody can have confirmed that")
	}
	r.Wire.Drop(false, false)
	// The session goes on with what was not confirmed.
	recipetest.Eventually(t, "nothing is left behind", func() bool { return len(w.Keys("/concord/")) == 0 && s.CleaningUp() == 0 })
}

func TestB082FailedAttemptsLeaveNothing(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	h := lock(t, newMutex(t, w.Client(recipetest.Way).Session(0), "try"))
	m := newMutex(t, r.Session(0), "try")
	for i := range 200 {
		var err error
		if i%2 == 0 {
			_, err = m.TryLock(ctx)
		} else {
			_, err = m.LockWithin(ctx, time.Duration(i)*10*time.Microsecond)
		}
		if err == nil {
			t.Fatal("granted")
		}
	}
	// An attempt whose answer was lost: nobody knows whether its key was put.
	r.Wire.Drop(false, true)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := m.Lock(short); err == nil {
		t.Fatal("granted")
	}
	r.Wire.Drop(false, false)
	recipetest.Eventually(t, "only the holder stands in the line", func() bool { return len(w.Keys(prefix("try"))) == 1 })
	unlock(t, h)
	unlock(t, lock(t, m))
}

// With the guard no update is lost, whoever is paused. Without it one is: the test
// bites.
func TestB084UpdatesLostToPauses(t *testing.T) {
	for _, guarded := range []bool{true, false} {
		t.Run(strconv.FormatBool(guarded), func(t *testing.T) {
			w := recipetest.New(t)
			ctx := recipetest.Context(t)
			const name, data = "updates", "/updates"
			add := func(h *mutex.Held, paused func()) bool {
				g, err := w.Admin().Get(ctx, data, client.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				paused()
				put := client.OpPut(data, append(g.Record.GetValue(), '.'), client.PutOptions{})
				txn := client.If().Then(put)
				if guarded {
					txn = client.If(h.Compare()).Then(put)
				}
				x, err := txn.Commit(ctx, w.Admin())
				if err != nil {
					t.Fatal(err)
				}
				return x.Succeeded
			}
			acknowledged := 0
			count := func(ok bool) {
				if ok {
					acknowledged++
				}
			}
			for range 5 {
				r := w.Client(recipetest.Way)
				h := lock(t, newMutex(t, r.Session(0), name))
				count(add(h, func() {
					r.Clock.Freeze() // between the read and the write, for longer than the lease
					revoke(t, w, name)
					other := lock(t, newMutex(t, w.Client(recipetest.Way).Session(0), name))
					count(add(other, func() {}))
					unlock(t, other)
				}))
				r.Clock.Thaw()
			}
			g, err := w.Admin().Get(ctx, data, client.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if lost := acknowledged - len(g.Record.GetValue()); guarded != (lost == 0) {
				t.Fatalf("%d of %d updates lost", lost, acknowledged)
			}
		})
	}
}

func TestB088LateReleaseByTheOldHolder(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	old := w.Client(recipetest.Way)
	s := old.Session(0)
	h1 := lock(t, newMutex(t, s, "late"))
	w.Delete(prefix("late"))
	h2 := lock(t, newMutex(t, s, "late"))
	if err := h1.Unlock(ctx); err != nil && !errors.Is(err, lease.ErrLost) {
		t.Fatal(err)
	}
	x, err := client.If(h2.Compare()).Commit(ctx, w.Admin())
	if err != nil || !x.Succeeded || h2.Lease().Err() != nil {
		t.Fatal(x, err, h2.Lease().Err())
	}
	unlock(t, h2)
}

// Attempts that fail leave no lease, no watch and no renewal behind.
func TestB092FailedAcquiresAndTheirSession(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	h := lock(t, newMutex(t, w.Client(recipetest.Way).Session(0), "fail"))
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	m := newMutex(t, s, "fail")
	for range 100 {
		if _, err := m.LockWithin(ctx, time.Millisecond); err == nil {
			t.Fatal("granted")
		}
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lock(ctx); err != lease.ErrEnded {
		t.Fatal(err)
	}
	if _, err := w.Admin().LeaseInfo(ctx, s.LeaseID(), client.LeaseInfoOptions{}); messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
		t.Fatal(err)
	}
	recipetest.Eventually(t, "no watch is left", func() bool {
		status, err := w.Admin().Status(ctx)
		return err == nil && status.Watchers <= 1 // the holder's own
	})
	unlock(t, h)
}
