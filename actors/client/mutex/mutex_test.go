package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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
)

func TestMain(m *testing.M) { recipetest.Main(m) }

func newMutex(t testing.TB, s *session.Session, name string) *mutex.Mutex {
	t.Helper()
	m, err := mutex.New(s, name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func lock(t testing.TB, m *mutex.Mutex) *mutex.Held {
	t.Helper()
	h, err := m.Lock(recipetest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func unlock(t testing.TB, h *mutex.Held) {
	t.Helper()
	if err := h.Unlock(recipetest.Context(t)); err != nil {
		t.Fatal(err)
	}
}

// locking is a Lock that waits.
type locking struct {
	held *mutex.Held
	err  error
}

// waiter begins to wait and returns once it stands in the line.
func waiter(t testing.TB, w *recipetest.Town, ctx context.Context, m *mutex.Mutex) <-chan locking {
	t.Helper()
	before := len(w.Keys(prefix(m.Name())))
	c := make(chan locking, 1)
	go func() {
		h, err := m.Lock(ctx)
		c <- locking{h, err}
	}()
	recipetest.Eventually(t, "the waiter stands in the line", func() bool { return len(w.Keys(prefix(m.Name()))) > before })
	return c
}

func prefix(name string) string { return "/concord/mutex/" + url.PathEscape(name) + "/" }

// Processes and goroutines exclude each other, and tokens rise from grant to grant.
func TestOneAtATime(t *testing.T) {
	for _, kind := range []string{recipetest.Way} {
		t.Run(kind, func(t *testing.T) {
			w := recipetest.New(t)
			ctx := recipetest.Context(t)
			var inside atomic.Int32
			var last fence.Token // guarded by the lock under test
			total := 0
			var wg sync.WaitGroup
			const clients, callers, each = 3, 4, 8
			for range clients {
				s := w.Client(kind).Session(0)
				m := newMutex(t, s, "one")
				for range callers {
					wg.Go(func() {
						for range each {
							err := m.Do(ctx, func(ctx context.Context, h *mutex.Held) error {
								if inside.Add(1) != 1 {
									t.Error("two holders")
								}
								if h.Token() <= last {
									t.Errorf("token %d after %d", h.Token(), last)
								}
								last = h.Token()
								total++
								inside.Add(-1)
								return nil
							})
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			wg.Wait()
			if total != clients*callers*each || len(w.Keys("/concord/")) != 0 {
				t.Fatal(total, w.Keys("/concord/"))
			}
		})
	}
}

// Who came first is served first, and one release wakes one waiter.
func TestFirstComeFirstServed(t *testing.T) {
	w := recipetest.New(t)
	h := lock(t, newMutex(t, w.Client(recipetest.Way).Session(0), "fifo"))
	var waiting []<-chan locking
	for i := range 6 {
		kind := recipetest.Ways[i%3]
		waiting = append(waiting, waiter(t, w, recipetest.Context(t), newMutex(t, w.Client(kind).Session(0), "fifo")))
	}
	last := h.Token()
	for i, c := range waiting {
		unlock(t, h)
		got := recipetest.Wait(t, c, fmt.Sprint("waiter ", i))
		if got.err != nil || got.held.Token() <= last {
			t.Fatal(i, got.err, last)
		}
		for _, later := range waiting[i+1:] {
			if len(later) != 0 {
				t.Fatal("a later one was served too")
			}
		}
		h, last = got.held, got.held.Token()
	}
	unlock(t, h)
}

// A waiter that gives up in the middle of the line does not hold up those behind it.
func TestGivingUpInTheMiddle(t *testing.T) {
	w := recipetest.New(t)
	s := w.Client(recipetest.Way).Session(0)
	m := newMutex(t, s, "middle")
	h := lock(t, m)
	ctx, cancel := context.WithCancel(context.Background())
	second := waiter(t, w, ctx, m)
	third := waiter(t, w, recipetest.Context(t), m)
	cancel()
	if got := recipetest.Wait(t, second, "the second"); !errors.Is(got.err, context.Canceled) || got.held != nil {
		t.Fatal(got)
	}
	if keys := w.Keys(prefix("middle")); len(keys) != 2 {
		t.Fatal(keys)
	}
	unlock(t, h)
	got := recipetest.Wait(t, third, "the third")
	if got.err != nil {
		t.Fatal(got.err)
	}
	unlock(t, got.held)
}

func TestAcquireModes(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	m := newMutex(t, w.Client(recipetest.Way).Session(0), "modes")
	other := newMutex(t, w.Client(recipetest.Way).Session(0), "modes")
	h, err := m.TryLock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.TryLock(ctx); !errors.Is(err, mutex.ErrBusy) {
		t.Fatal(err)
	}
	if _, err := other.LockWithin(ctx, 30*time.Millisecond); !errors.Is(err, mutex.ErrBusy) {
		t.Fatal(err)
	}
	// However short: also when not even the cluster has answered by then.
	for d := 10 * time.Microsecond; d < 10*time.Millisecond; d *= 2 {
		if _, err := other.LockWithin(ctx, d); !errors.Is(err, mutex.ErrBusy) {
			t.Fatal(d, err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	if _, err := other.LockWithin(short, time.Hour); errors.Is(err, mutex.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal("the caller's own deadline is not the lock's:", err)
	}
	recipetest.Eventually(t, "what gave up leaves nothing behind", func() bool { return len(w.Keys(prefix("modes"))) == 1 })
	got := make(chan error, 1)
	go func() {
		h, err := other.LockWithin(ctx, 10*time.Second)
		if err == nil {
			err = h.Unlock(ctx)
		}
		got <- err
	}()
	unlock(t, h)
	if err := recipetest.Wait(t, got, "LockWithin"); err != nil {
		t.Fatal(err)
	}
}

// Names that are prefixes of each other, or look like paths, are different locks.
func TestNames(t *testing.T) {
	w := recipetest.New(t)
	s := w.Client(recipetest.Way).Session(0)
	var held []*mutex.Held
	for _, name := range []string{"a", "a/b", "a/", "/a", "a%2Fb", "a%2fb", "..", "ä", "a\x00", "\xff"} {
		held = append(held, lock(t, newMutex(t, s, name)))
	}
	for _, h := range held {
		unlock(t, h)
	}
	for _, bad := range []string{"", string(make([]byte, 4096))} {
		if _, err := mutex.New(s, bad); err == nil {
			t.Errorf("%d bytes were taken", len(bad))
		}
	}
}

// The compare of a hold is true exactly while it has the lock.
func TestCompare(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	m := newMutex(t, r.Session(0), "cmp")
	write := func(h *mutex.Held) bool {
		t.Helper()
		x, err := client.If(h.Compare()).Then(client.OpPut("/guarded", nil, client.PutOptions{})).Commit(ctx, r.Client)
		if err != nil {
			t.Fatal(err)
		}
		return x.Succeeded
	}
	first := lock(t, m)
	if !write(first) {
		t.Fatal("the holder was refused")
	}
	unlock(t, first)
	second := lock(t, m)
	if write(first) || !write(second) {
		t.Fatal("a former holder was not refused, or the holder was")
	}
	unlock(t, second)
	if write(second) {
		t.Fatal("nobody has it")
	}
}

func TestUnlockTwice(t *testing.T) {
	w := recipetest.New(t)
	m := newMutex(t, w.Client(recipetest.Way).Session(0), "twice")
	h := lock(t, m)
	unlock(t, h)
	unlock(t, h)
	if err := h.Lease().Err(); err != lease.ErrEnded || h.Lease().Context().Err() != nil || h.Remaining() != 0 {
		t.Fatal(err)
	}
	next := lock(t, m)
	unlock(t, h)
	if err := next.Lease().Err(); err != nil || len(w.Keys(prefix("twice"))) != 1 {
		t.Fatal("the unlock of a former hold reached the next:", err)
	}
	unlock(t, next)
}
