package flight_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/flight"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) { recipetest.Main(m) }

type answer struct {
	r   flight.Result
	err error
}

// asked asks in the background.
func asked(ctx context.Context, g *flight.Group, key string, fn flight.Func) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		r, err := g.Do(ctx, key, fn)
		c <- answer{r, err}
	}()
	return c
}

func never(t testing.TB) flight.Func {
	return func(context.Context, *flight.Run) ([]byte, error) {
		t.Error("a second run")
		return nil, nil
	}
}

// gate is a function that runs until it is let go.
type gate struct {
	began chan *flight.Run
	end   chan struct{}
}

func newGate() gate { return gate{make(chan *flight.Run, 1), make(chan struct{})} }

func (g gate) fn(value []byte, err error) flight.Func {
	return func(ctx context.Context, r *flight.Run) ([]byte, error) {
		g.began <- r
		<-g.end
		return value, err
	}
}

// joined waits until the run is followed from so many other processes.
func joined(t testing.TB, w *recipetest.Town, processes uint64) {
	t.Helper()
	recipetest.Eventually(t, fmt.Sprint(processes, " join"), func() bool {
		s, err := w.Admin().Status(recipetest.Context(t))
		return err == nil && s.Watchers == processes+1 // the run's own
	})
}

// waiting waits until so many callers of a process wait for the key.
func waiting(t testing.TB, g *flight.Group, key string, callers int) {
	t.Helper()
	recipetest.Eventually(t, fmt.Sprint(callers, " wait"), func() bool { return g.Waiting(key) == callers })
}

// Twenty callers in ten processes: one run, one value for all.
func TestOnce(t *testing.T) {
	for _, kind := range []string{recipetest.Way} {
		t.Run(kind, func(t *testing.T) {
			w := recipetest.New(t)
			ctx := recipetest.Context(t)
			run := newGate()
			first := asked(ctx, flight.New(w.Client(kind).Session(0)), "k", run.fn([]byte("v"), nil))
			recipetest.Wait(t, run.began, "the run")
			var others []<-chan answer
			const processes = 9
			for range processes {
				g := flight.New(w.Client(kind).Session(0))
				others = append(others, asked(ctx, g, "k", never(t)), asked(ctx, g, "k", never(t)))
				waiting(t, g, "k", 2)
			}
			joined(t, w, processes)
			close(run.end)
			if got := recipetest.Wait(t, first, "the runner"); got.err != nil || string(got.r.Value) != "v" || got.r.Joined {
				t.Fatal(got)
			}
			for i, c := range others {
				if got := recipetest.Wait(t, c, fmt.Sprint("joiner ", i)); got.err != nil || string(got.r.Value) != "v" || !got.r.Joined {
					t.Fatal(i, got)
				}
			}
			if keys := w.Keys("/concord/"); len(keys) != 0 {
				t.Fatal(keys)
			}
		})
	}
}

// It is not a cache, and tokens rise from run to run.
func TestNotACache(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	a, b := flight.New(w.Client(recipetest.Way).Session(0)), flight.New(w.Client(recipetest.Way).Session(0))
	var last uint64
	for i := range 6 {
		g := []*flight.Group{a, b}[i%2]
		r, err := g.Do(ctx, "k", func(_ context.Context, r *flight.Run) ([]byte, error) {
			if uint64(r.Token()) <= last {
				t.Errorf("token %d after %d", r.Token(), last)
			}
			last = uint64(r.Token())
			return fmt.Append(nil, i), nil
		})
		if err != nil || string(r.Value) != fmt.Sprint(i) || r.Joined {
			t.Fatal(r, err)
		}
	}
}

// Many at random: each call ends, and no two runs overlap.
func TestCrowd(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	var running, runs, shared atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		g := flight.New(w.Client(recipetest.Way).Session(0))
		for range 8 {
			wg.Go(func() {
				for range 10 {
					r, err := g.Do(ctx, "crowd", func(context.Context, *flight.Run) ([]byte, error) {
						if running.Add(1) != 1 {
							t.Error("two runs")
						}
						runs.Add(1)
						running.Add(-1)
						return []byte("x"), nil
					})
					if err != nil || string(r.Value) != "x" {
						t.Error(r, err)
						return
					}
					if r.Joined {
						shared.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	t.Log(runs.Load(), "runs,", shared.Load(), "joined")
	if runs.Load()+shared.Load() != 320 {
		t.Fatal(runs.Load(), shared.Load())
	}
}

func TestFailure(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	errWork := errors.New("no luck")
	run := newGate()
	g := flight.New(w.Client(recipetest.Way).Session(0))
	first := asked(ctx, g, "k", run.fn(nil, errWork))
	recipetest.Wait(t, run.began, "the run")
	local := asked(ctx, g, "k", never(t))
	waiting(t, g, "k", 2)
	remote := asked(ctx, flight.New(w.Client(recipetest.Way).Session(0)), "k", never(t))
	joined(t, w, 1)
	close(run.end)
	for who, c := range map[string]<-chan answer{"runner": first, "local": local, "remote": remote} {
		got := recipetest.Wait(t, c, who)
		var failed *flight.FailedError
		if !errors.As(got.err, &failed) || failed.Text != "no luck" || errors.Is(got.err, errWork) == (who == "remote") {
			t.Fatalf("%s: %#v", who, got.err)
		}
	}
}

// A cancel withdraws one caller. The run goes on for the others, and even for nobody.
func TestCancelWithdrawsOne(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	run := newGate()
	g, other := flight.New(w.Client(recipetest.Way).Session(0)), flight.New(w.Client(recipetest.Way).Session(0))
	one, cancel := context.WithCancel(ctx)
	starter := asked(one, g, "k", run.fn([]byte("v"), nil))
	recipetest.Wait(t, run.began, "the run")
	remote := asked(ctx, other, "k", never(t))
	joined(t, w, 1)
	two, cancelTwo := context.WithCancel(ctx)
	withdrawn := asked(two, other, "k", never(t))
	waiting(t, other, "k", 2)
	cancel()
	if got := recipetest.Wait(t, starter, "the starter"); !errors.Is(got.err, context.Canceled) {
		t.Fatal(got)
	}
	cancelTwo()
	if got := recipetest.Wait(t, withdrawn, "a joiner"); !errors.Is(got.err, context.Canceled) {
		t.Fatal(got)
	}
	late := asked(ctx, g, "k", never(t))
	waiting(t, g, "k", 1)
	close(run.end)
	for _, c := range []<-chan answer{remote, late} {
		if got := recipetest.Wait(t, c, "who stayed"); got.err != nil || string(got.r.Value) != "v" {
			t.Fatal(got)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := g.Do(over, "k", never(t)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A run that is lost: its result is discarded, who joined hears that it came to nothing,
// and the next one runs meanwhile.
func TestLoss(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	run := newGate()
	g := flight.New(w.Client(recipetest.Way).Session(0))
	first := asked(ctx, g, "k", run.fn([]byte("discarded"), nil))
	r := recipetest.Wait(t, run.began, "the run")
	remote := asked(ctx, flight.New(w.Client(recipetest.Way).Session(0)), "k", never(t))
	joined(t, w, 1)
	w.Delete("/concord/")
	var interrupted *flight.InterruptedError
	if got := recipetest.Wait(t, remote, "the joiner"); !errors.As(got.err, &interrupted) {
		t.Fatal(got)
	}
	recipetest.Wait(t, r.Lease().Context().Done(), "the signal")
	next, err := g.Do(ctx, "k", func(context.Context, *flight.Run) ([]byte, error) { return []byte("next"), nil })
	if err != nil || string(next.Value) != "next" || next.Joined {
		t.Fatal(next, err)
	}
	close(run.end)
	if got := recipetest.Wait(t, first, "the lost run"); !errors.Is(got.err, lease.ErrLost) || got.r.Value != nil {
		t.Fatal(got)
	}
}

func TestB086PanicAndGoexit(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	g, other := flight.New(w.Client(recipetest.Way).Session(0)), flight.New(w.Client(recipetest.Way).Session(0))
	for how, end := range map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit} {
		began, proceed := make(chan struct{}), make(chan struct{})
		left := make(chan any, 1)
		go func() {
			defer func() { left <- recover() }()
			_, _ = g.Do(ctx, how, func(context.Context, *flight.Run) ([]byte, error) {
				close(began)
				<-proceed
				end()
				return nil, nil
			})
			t.Error("Do returned")
		}()
		recipetest.Wait(t, began, how)
		local, remote := asked(ctx, g, how, never(t)), asked(ctx, other, how, never(t))
		joined(t, w, 1)
		waiting(t, g, how, 2)
		close(proceed)
		v := recipetest.Wait(t, left, "the starter")
		if p, ok := v.(*flight.PanicError); how == "panic" && (!ok || p.Value != "boom" || !strings.Contains(p.Error(), "flight_test.go")) || how == "goexit" && v != nil {
			t.Fatal(how, v)
		}
		for _, c := range []<-chan answer{local, remote} {
			var interrupted *flight.InterruptedError
			if got := recipetest.Wait(t, c, how); !errors.As(got.err, &interrupted) {
				t.Fatal(how, got)
			}
		}
		if r, err := g.Do(ctx, how, func(context.Context, *flight.Run) ([]byte, error) { return nil, nil }); err != nil || r.Value != nil {
			t.Fatal(r, err) // a next call runs, and nothing is a result
		}
		if keys := w.Keys("/concord/"); len(keys) != 0 {
			t.Fatal(keys)
		}
	}
}

// A value that cannot travel fails for all, at once.
func TestTooLarge(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	run := newGate()
	first := asked(ctx, flight.New(w.Client(recipetest.Way).Session(0)), "k", run.fn(bytes.Repeat([]byte("x"), 1<<20+1), nil))
	recipetest.Wait(t, run.began, "the run")
	remote := asked(ctx, flight.New(w.Client(recipetest.Way).Session(0)), "k", never(t))
	joined(t, w, 1)
	close(run.end)
	if got := recipetest.Wait(t, first, "the runner"); messages.CodeOf(got.err) != messages.Code_CODE_TOO_LARGE {
		t.Fatal(got.err)
	}
	var failed *flight.FailedError
	if got := recipetest.Wait(t, remote, "the joiner"); !errors.As(got.err, &failed) {
		t.Fatal(got.err)
	}
}

// The joiner's connection is lost while the run ends, and history is compacted: it
// still ends.
func TestJoinerMissesTheEnd(t *testing.T) {
	for _, compact := range []bool{false, true} {
		t.Run(fmt.Sprint("compact=", compact), func(t *testing.T) {
			w := recipetest.New(t)
			ctx := recipetest.Context(t)
			run := newGate()
			first := asked(ctx, flight.New(w.Client(recipetest.Way).Session(0)), "k", run.fn([]byte("v"), nil))
			recipetest.Wait(t, run.began, "the run")
			r := w.Client(recipetest.Way)
			remote := asked(ctx, flight.New(r.Session(0)), "k", never(t))
			joined(t, w, 1)
			r.Wire.Refuse(true)
			close(run.end)
			if got := recipetest.Wait(t, first, "the runner"); got.err != nil {
				t.Fatal(got)
			}
			if compact {
				p, err := w.Admin().Put(ctx, "/x", nil, client.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Admin().Compact(ctx, p.Revision); err != nil {
					t.Fatal(err)
				}
			}
			r.Wire.Refuse(false)
			got := recipetest.Wait(t, remote, "the joiner")
			var interrupted *flight.InterruptedError
			switch {
			case got.err == nil && string(got.r.Value) == "v": // a node keeps what its watches have not seen, for a while
			case compact && errors.As(got.err, &interrupted):
			default:
				t.Fatal(got)
			}
		})
	}
}

// Closing what the calls hang on ends them.
func TestClose(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	run := newGate()
	first := asked(ctx, flight.New(w.Client(recipetest.Way).Session(0)), "k", run.fn(nil, nil))
	recipetest.Wait(t, run.began, "the run")
	s := w.Client(recipetest.Way).Session(0)
	joiner := asked(ctx, flight.New(s), "k", never(t))
	joined(t, w, 1)
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got := recipetest.Wait(t, joiner, "the joiner"); got.err != lease.ErrEnded {
		t.Fatal(got)
	}
	close(run.end)
	recipetest.Wait(t, first, "the runner")
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := flight.New(s).Do(short, "k", never(t)); err != lease.ErrEnded {
		t.Fatal(err)
	}
}
