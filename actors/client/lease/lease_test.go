package lease

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test in a bubble of its own, which fails if a goroutine is left in it.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

var (
	errFirst  = errors.New("first")
	errSecond = errors.New("second")
)

// Each row is a story: what the issuer did, in order, and what the holder sees.
func TestLife(t *testing.T) {
	cases := []struct {
		story  string // words of: lose1 lose2 lose0 end probe1
		signal bool
		over   bool
		lost   bool
		ended  bool
		cause  error
	}{
		{story: ""},
		{story: "lose1", signal: true, over: true, lost: true, cause: errFirst},
		{story: "lose0", signal: true, over: true, lost: true},
		{story: "lose1 lose2", signal: true, over: true, lost: true, cause: errFirst},
		{story: "lose0 lose2", signal: true, over: true, lost: true},
		{story: "end", over: true, ended: true},
		{story: "end end", over: true, ended: true},
		{story: "end lose1", over: true, ended: true},
		{story: "lose1 end", signal: true, over: true, lost: true, cause: errFirst},
		{story: "lose1 end end lose2", signal: true, over: true, lost: true, cause: errFirst},
		{story: "probe1", signal: true, over: true, lost: true, cause: errFirst},
		{story: "probe1 lose2", signal: true, over: true, lost: true, cause: errFirst},
		{story: "end probe1", over: true, ended: true},
	}
	for _, tc := range cases {
		bubble(t, tc.story, func(t *testing.T) {
			var passed error
			c := NewController("orders", Options{Probe: func() error { return passed }})
			l := c.Lease()
			var signals, freed atomic.Int32
			context.AfterFunc(l.Context(), func() { signals.Add(1) })
			for range 3 {
				go func() { <-l.Over(); freed.Add(1) }()
			}
			defer c.End() // for who waits for the end of a lease that is held
			for word := range strings.FieldsSeq(tc.story) {
				switch word {
				case "lose0":
					c.Lose(nil)
				case "lose1":
					c.Lose(errFirst)
				case "lose2":
					c.Lose(errSecond)
				case "end":
					c.End()
				case "probe1":
					passed = errFirst
					_ = l.Err()
				}
				synctest.Wait() // what this set off has been done
				if n := signals.Load(); n > 1 || (n == 1) != (l.Context().Err() != nil) {
					t.Errorf("after %s: %d signals", word, n)
				}
			}
			if n := freed.Load(); (n == 3) != tc.over {
				t.Errorf("%d of 3 who wait for the end were freed", n)
			}
			if got := l.Context().Err() != nil; got != tc.signal {
				t.Errorf("signalled %v, want %v", got, tc.signal)
			}
			select {
			case <-l.Over():
				if !tc.over {
					t.Error("over, want held")
				}
			default:
				if tc.over {
					t.Error("held, want over")
				}
			}
			err := l.Err()
			if got := errors.Is(err, ErrLost); got != tc.lost {
				t.Errorf("Err() = %v, lost %v, want %v", err, got, tc.lost)
			}
			if got := errors.Is(err, ErrEnded); got != tc.ended {
				t.Errorf("Err() = %v, ended %v, want %v", err, got, tc.ended)
			}
			if !tc.lost {
				return
			}
			var lost *LostError
			if !errors.As(err, &lost) || lost.Subject != "orders" || lost.Cause != tc.cause {
				t.Errorf("Err() = %#v", err)
			}
			if context.Cause(l.Context()) != err {
				t.Errorf("cause of the context is %v, want %v", context.Cause(l.Context()), err)
			}
			if tc.cause != nil && !errors.Is(err, tc.cause) {
				t.Errorf("%v does not match its cause", err)
			}
		})
	}
}

func TestOneSignalAmongMany(t *testing.T) {
	for range 200 {
		c := NewController("k", Options{})
		signals := make(chan error, 16)
		context.AfterFunc(c.Lease().Context(), func() { signals <- context.Cause(c.Lease().Context()) })
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if i%2 == 0 {
					c.Lose(errFirst)
				} else {
					c.Lose(errSecond)
				}
			})
		}
		wg.Wait()
		first := <-signals
		if c.Lease().Err() != first || len(signals) != 0 {
			t.Fatalf("Err %v, first signal %v, %d more", c.Lease().Err(), first, len(signals))
		}
	}
}

// A holder may call the lease from what the signal starts.
func TestSignalMayCallBack(t *testing.T) {
	c := NewController("k", Options{})
	done := make(chan error, 1)
	stop := context.AfterFunc(c.Lease().Context(), func() {
		c.End()
		c.Lose(errSecond)
		done <- c.Lease().Err()
	})
	defer stop()
	c.Lose(errFirst)
	if err := <-done; !errors.Is(err, errFirst) {
		t.Fatal(err)
	}
}

func TestWith(t *testing.T) {
	errWork := errors.New("work")
	bubble(t, "passes the result", func(t *testing.T) {
		c := NewController("k", Options{})
		if err := With(context.Background(), c.Lease(), func(context.Context) error { return errWork }); err != errWork {
			t.Fatal(err)
		}
	})
	bubble(t, "a loss stops the work and carries its error", func(t *testing.T) {
		c := NewController("k", Options{})
		err := With(context.Background(), c.Lease(), func(ctx context.Context) error {
			c.Lose(errFirst)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrLost) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return errWork
		})
		var lost *LostError
		if !errors.As(err, &lost) || lost.Work != errWork || !errors.Is(err, errFirst) || !errors.Is(err, errWork) {
			t.Fatalf("%#v", err)
		}
	})
	bubble(t, "a loss that the work did not notice is reported", func(t *testing.T) {
		c := NewController("k", Options{})
		err := With(context.Background(), c.Lease(), func(context.Context) error { c.Lose(nil); return nil })
		if !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
	})
	bubble(t, "the caller's cancel is not a loss", func(t *testing.T) {
		c := NewController("k", Options{})
		ctx, cancel := context.WithCancel(context.Background())
		err := With(ctx, c.Lease(), func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })
		if err != context.Canceled || c.Lease().Err() != nil {
			t.Fatal(err, c.Lease().Err())
		}
	})
	bubble(t, "an ended lease does not start", func(t *testing.T) {
		c := NewController("k", Options{})
		c.End()
		err := With(context.Background(), c.Lease(), func(context.Context) error { t.Error("ran"); return nil })
		if err != ErrEnded {
			t.Fatal(err)
		}
	})
	bubble(t, "ending inside the work is no loss", func(t *testing.T) {
		c := NewController("k", Options{})
		if err := With(context.Background(), c.Lease(), func(context.Context) error { c.End(); return nil }); err != nil {
			t.Fatal(err)
		}
	})
	bubble(t, "a panic passes through", func(t *testing.T) {
		c := NewController("k", Options{})
		defer func() {
			if recover() != "boom" || c.Lease().Err() != nil {
				t.Error("the panic was changed, or the lease was")
			}
		}()
		_ = With(context.Background(), c.Lease(), func(context.Context) error { panic("boom") })
	})
	bubble(t, "a context of any type works", func(t *testing.T) {
		c := NewController("k", Options{})
		odd := struct {
			context.Context
			unhashable []int
		}{context.Background(), nil}
		if err := With(odd, c.Lease(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
}
