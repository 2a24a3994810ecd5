package election_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/election"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) { recipetest.Main(m) }

const prefix = "/concord/election/boss/"

func newElection(t testing.TB, s *session.Session) *election.Election {
	t.Helper()
	e, err := election.New(s, "boss")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func campaign(t testing.TB, e *election.Election, value string) *election.Term {
	t.Helper()
	term, err := e.Campaign(recipetest.Context(t), []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func resign(t testing.TB, term *election.Term) {
	t.Helper()
	if err := term.Resign(recipetest.Context(t)); err != nil {
		t.Fatal(err)
	}
}

func leader(t testing.TB, e *election.Election) string {
	t.Helper()
	l, err := e.Leader(recipetest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return show(l)
}

func show(l election.Leader) string {
	if l.Nobody() {
		return "nobody"
	}
	return string(l.Value)
}

type elected struct {
	term *election.Term
	err  error
}

func candidate(t testing.TB, w *recipetest.Town, ctx context.Context, e *election.Election, value string) <-chan elected {
	t.Helper()
	before := len(w.Keys(prefix))
	c := make(chan elected, 1)
	go func() {
		term, err := e.Campaign(ctx, []byte(value))
		c <- elected{term, err}
	}()
	recipetest.Eventually(t, "the candidate stands in the line", func() bool { return len(w.Keys(prefix)) > before })
	return c
}

func TestTerms(t *testing.T) {
	for _, kind := range []string{recipetest.Way} {
		t.Run(kind, func(t *testing.T) {
			w := recipetest.New(t)
			ctx := recipetest.Context(t)
			a, b := newElection(t, w.Client(kind).Session(0)), newElection(t, w.Client(kind).Session(0))
			if got := leader(t, a); got != "nobody" {
				t.Fatal(got)
			}
			first := campaign(t, a, "a")
			second := candidate(t, w, ctx, b, "b")
			if got := leader(t, b); got != "a" || first.Epoch() == 0 {
				t.Fatal(got, first.Epoch())
			}
			if err := first.Proclaim(ctx, []byte("a2")); err != nil {
				t.Fatal(err)
			}
			if l, err := b.Leader(ctx); err != nil || string(l.Value) != "a2" || l.Epoch != first.Epoch() || l.Revision <= l.Epoch {
				t.Fatal(l, err)
			}
			resign(t, first)
			got := recipetest.Wait(t, second, "the second candidate")
			if got.err != nil || got.term.Epoch() <= first.Epoch() || leader(t, a) != "b" {
				t.Fatal(got.err, got.term.Epoch(), leader(t, a))
			}
			if err := first.Proclaim(ctx, []byte("late")); !errors.Is(err, lease.ErrEnded) {
				t.Fatal(err)
			}
			resign(t, first) // it is not the second's term that ends
			if leader(t, a) != "b" || got.term.Lease().Err() != nil {
				t.Fatal(leader(t, a))
			}
			resign(t, got.term)
			if leader(t, a) != "nobody" {
				t.Fatal(leader(t, a))
			}
		})
	}
}

// A leader whose key was deleted learns so from what it writes, if from nothing else.
func TestProclaimAfterTheTerm(t *testing.T) {
	w := recipetest.New(t)
	term := campaign(t, newElection(t, w.Client(recipetest.Way).Session(0)), "a")
	w.Delete(prefix)
	err := term.Proclaim(recipetest.Context(t), []byte("b"))
	if !errors.Is(err, lease.ErrLost) || term.Lease().Context().Err() == nil || len(w.Keys(prefix)) != 0 || term.Remaining() != 0 {
		t.Fatal(err, w.Keys(prefix))
	}
}

func TestRun(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	e := newElection(t, w.Client(recipetest.Way).Session(0))
	var leading atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			err := e.Run(ctx, fmt.Append(nil, i), func(context.Context, *election.Term) error {
				if leading.Add(1) != 1 {
					t.Error("two lead")
				}
				leading.Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	errLost := e.Run(ctx, nil, func(ctx context.Context, _ *election.Term) error {
		w.Delete(prefix)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(errLost, lease.ErrLost) || !errors.Is(errLost, context.Canceled) {
		t.Fatal(errLost)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(ctx, nil, func(context.Context, *election.Term) error { runtime.Goexit(); return nil })
	}()
	recipetest.Wait(t, done, "Goexit")
	if len(w.Keys(prefix)) != 0 {
		t.Fatal(w.Keys(prefix))
	}
}

// A node that is cut off gives no leader rather than a former one.
func TestB059LeaderOfAPartitionedNode(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	e := newElection(t, r.Session(0))
	campaign(t, e, "old")
	r.Wire.Drop(true, true)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if l, err := e.Leader(ctx); err == nil {
		t.Fatal(l)
	}
	r.Wire.Drop(false, false)
}

// A resignation that was not confirmed is not forgotten: the key goes, by the second
// attempt or in the background.
func TestB065ResignWithACancelledContext(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	e := newElection(t, r.Session(0))
	over, cancel := context.WithCancel(context.Background())
	cancel()

	term := campaign(t, e, "a")
	if err := term.Resign(over); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	resign(t, term)
	if leader(t, e) != "nobody" {
		t.Fatal(leader(t, e))
	}

	term = campaign(t, e, "b")
	next := candidate(t, w, recipetest.Context(t), newElection(t, w.Client(recipetest.Way).Session(0)), "c")
	r.Wire.Drop(false, true)
	mid, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := term.Resign(mid); err == nil {
		t.Fatal("nobody can have confirmed that")
	}
	r.Wire.Drop(false, false)
	got := recipetest.Wait(t, next, "the next leader")
	if got.err != nil {
		t.Fatal(got.err)
	}
	resign(t, got.term)
	resign(t, term)
}

type observer struct{ seen chan string }

func observe(t testing.TB, ctx context.Context, e *election.Election) observer {
	o := observer{make(chan string, 100)}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for l, err := range e.Observe(ctx) {
			if err != nil {
				o.seen <- "end"
				return
			}
			o.seen <- show(l)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return o
}

func (o observer) want(t testing.TB, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := recipetest.Wait(t, o.seen, w); got != w {
			t.Fatalf("saw %s, want %s", got, w)
		}
	}
}

func TestB070LeaderOlderThanCompaction(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	e := newElection(t, w.Client(recipetest.Way).Session(0))
	term := campaign(t, e, "old")
	var rev uint64
	for range 50 {
		p, err := w.Admin().Put(ctx, "/x", nil, client.PutOptions{NoPrev: true})
		if err != nil {
			t.Fatal(err)
		}
		rev = p.Revision
	}
	if _, err := w.Admin().Compact(ctx, rev-5); err != nil {
		t.Fatal(err)
	}
	o := observe(t, ctx, newElection(t, w.Client(recipetest.Way).Session(0)))
	o.want(t, "old")
	resign(t, term)
	resign(t, campaign(t, e, "new"))
	o.want(t, "nobody", "new", "nobody")
}

func TestB071ObserveSaysNobody(t *testing.T) {
	w := recipetest.New(t)
	a, b := newElection(t, w.Client(recipetest.Way).Session(0)), newElection(t, w.Client(recipetest.Way).Session(0))
	watcher := w.Client(recipetest.Way)
	o := observe(t, recipetest.Context(t), newElection(t, watcher.Session(0)))
	o.want(t, "nobody")
	resign(t, campaign(t, a, "a"))
	o.want(t, "a", "nobody")
	// Also over a lost connection.
	watcher.Wire.Refuse(true)
	term := campaign(t, b, "b")
	watcher.Wire.Refuse(false)
	o.want(t, "b")
	if err := term.Proclaim(recipetest.Context(t), []byte("b2")); err != nil {
		t.Fatal(err)
	}
	o.want(t, "b2")
	_ = watcher.Close()
	o.want(t, "end")
}

// The entry of a former session of the same process is not its own.
func TestB072OldSessionsEntry(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	old := r.Session(0)
	former := campaign(t, newElection(t, old), "me")
	old.Abandon() // ended here; the cluster keeps its lease for a ttl
	if err := former.Lease().Err(); !errors.Is(err, lease.ErrLost) {
		t.Fatal("the term outlived its session:", err)
	}
	e := newElection(t, r.Session(0))
	c := candidate(t, w, ctx, e, "me")
	select {
	case got := <-c:
		t.Fatal("it leads beside its former self", got.err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := w.Admin().Revoke(ctx, old.LeaseID()); err != nil {
		t.Fatal(err)
	}
	got := recipetest.Wait(t, c, "the new session")
	if got.err != nil || got.term.Epoch() <= former.Epoch() {
		t.Fatal(got.err)
	}
}

func TestB068CampaignTwice(t *testing.T) {
	w := recipetest.New(t)
	e := newElection(t, w.Client(recipetest.Way).Session(0))
	first := campaign(t, e, "1")
	second := candidate(t, w, recipetest.Context(t), e, "2")
	if leader(t, e) != "1" || len(second) != 0 {
		t.Fatal(leader(t, e))
	}
	resign(t, first)
	if got := recipetest.Wait(t, second, "the second"); got.err != nil || leader(t, e) != "2" {
		t.Fatal(got.err)
	}
}

// The cluster restarts: the terms go on, or are over, and epochs go on rising.
func TestRestart(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	e := newElection(t, w.Client(recipetest.Way).Session(0))
	first := campaign(t, e, "a")
	second := candidate(t, w, ctx, newElection(t, w.Client(recipetest.Way).Session(0)), "b")
	address := w.Node.Addr()
	if err := w.Node.Close(); err != nil {
		t.Fatal(err)
	}
	w.Start(address)
	if err := first.Lease().Err(); err != nil {
		t.Fatal(err)
	}
	resign(t, first)
	got := recipetest.Wait(t, second, "the second candidate")
	if got.err != nil || got.term.Epoch() <= first.Epoch() {
		t.Fatal(got.err)
	}
	if l, err := e.Leader(ctx); err != nil || l.Epoch != got.term.Epoch() {
		t.Fatal(l, err)
	}
}

func TestBadNames(t *testing.T) {
	w := recipetest.New(t)
	if _, err := election.New(w.Client(recipetest.Way).Session(0), ""); messages.CodeOf(err) != messages.Code_CODE_INVALID_ARGUMENT {
		t.Fatal(err)
	}
}
