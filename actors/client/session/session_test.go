package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/messages"
)

// world is a store and a renewer in one hand, under a clock that stands still unless it
// is moved.
type world struct {
	now      time.Duration
	timers   []*fakeTimer
	grantLag time.Duration // from the send time of the grant to its reply
	checkErr error
	revokes  int
	revErr   error
	observer client.KeepaliveObserver
	forgot   int
}

type fakeTimer struct {
	w    *world
	at   time.Duration
	f    func()
	done bool
}

func (t *fakeTimer) Reset(d time.Duration) bool { t.at, t.done = t.w.now+d, false; return true }
func (t *fakeTimer) Stop() bool                 { t.done = true; return true }

func (w *world) Now() time.Duration { return w.now }
func (w *world) AfterFunc(d time.Duration, f func()) client.Timer {
	t := &fakeTimer{w: w, at: w.now + d, f: f}
	w.timers = append(w.timers, t)
	return t
}

// advance moves the clock and runs the timers that are due, in steps.
func (w *world) advance(d time.Duration) {
	for end := w.now + d; w.now < end; {
		w.now = min(w.now+10*time.Millisecond, end)
		for _, t := range w.timers {
			if !t.done && t.at <= w.now {
				t.done = true
				t.f()
			}
		}
	}
}

func (w *world) Clock() client.Clock { return w }
func (w *world) Grant(_ context.Context, ttl time.Duration, _ client.GrantOptions) (client.Granted, error) {
	sentAt := w.now
	w.now += w.grantLag
	return client.Granted{LeaseID: 7, TTL: ttl, SentAt: sentAt}, nil
}
func (w *world) KeepAlive(context.Context, uint64, time.Duration) (client.Renewed, error) {
	return client.Renewed{TTL: 10 * time.Second, SentAt: w.now}, w.checkErr
}
func (w *world) Revoke(context.Context, uint64) (uint64, error) { w.revokes++; return 1, w.revErr }
func (w *world) Keep(_ uint64, _, _ time.Duration, o client.KeepaliveObserver) {
	w.observer = o
}
func (w *world) Forget(uint64) { w.forgot++ }

const (
	ttl  = 10 * time.Second
	span = ttl - ttl/100 - 100*time.Millisecond // 9.8 s
)

func open(t *testing.T, w *world) *Session {
	t.Helper()
	s, err := OpenWith(context.Background(), w, w, Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func held(t *testing.T, s *Session, want bool) {
	t.Helper()
	signalled := s.Lease().Context().Err() != nil
	if signalled == want {
		t.Fatalf("signalled %v at %v, deadline %v", signalled, s.clock.Now(), s.deadline)
	}
}

// Each row: what happened, and when the signal fired, counted from the grant's send
// time.
func TestDeadline(t *testing.T) {
	cases := []struct {
		name  string
		lag   time.Duration
		steps func(w *world)
		want  time.Duration
	}{
		{"nothing confirmed", 0, nil, span},
		{"a slow grant counts from its send time", 4 * time.Second, nil, span},
		{"a keep-alive counts from its send time, not its reply", 0, func(w *world) {
			w.advance(5 * time.Second)
			w.observer.Confirmed(3*time.Second, ttl)
		}, 3*time.Second + span},
		{"answers in the wrong order never shorten it", 0, func(w *world) {
			w.advance(6 * time.Second)
			w.observer.Confirmed(5*time.Second, ttl)
			w.observer.Confirmed(2*time.Second, ttl)
		}, 5*time.Second + span},
		{"the ttl in the reply counts", 0, func(w *world) {
			w.advance(4 * time.Second)
			w.observer.Confirmed(3*time.Second, 20*time.Second)
		}, 3*time.Second + 20*time.Second - 200*time.Millisecond - 100*time.Millisecond},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			w := &world{grantLag: tc.lag}
			s := open(t, w)
			if tc.steps != nil {
				tc.steps(w)
			}
			w.advance(tc.want - w.now - time.Millisecond)
			held(t, s, true)
			if got := s.Remaining(); got != time.Millisecond {
				t.Fatalf("remaining %v", got)
			}
			w.advance(time.Millisecond)
			held(t, s, false)
			if err := s.Lease().Err(); !errors.Is(err, lease.ErrLost) || !errors.Is(err, ErrDeadline) {
				t.Fatal(err)
			}
			if s.Remaining() != 0 || w.forgot != 1 {
				t.Fatalf("remaining %v, forgot %d", s.Remaining(), w.forgot)
			}
			w.observer.Confirmed(w.now, ttl) // too late: it does not come back
			held(t, s, false)
		})
	}
}

// A timer that does not run, as while the machine sleeps, does not hide the loss.
func TestErrReadsTheClock(t *testing.T) {
	w := &world{}
	s := open(t, w)
	w.now += 11 * time.Second
	if err := s.Lease().Err(); !errors.Is(err, ErrDeadline) {
		t.Fatal(err)
	}
	held(t, s, false)

	w = &world{}
	s = open(t, w)
	w.now += 11 * time.Second
	w.observer.Confirmed(w.now-time.Second, ttl) // the reply is seen before the timer runs
	held(t, s, false)
}

func TestGrantThatTookTooLong(t *testing.T) {
	if _, err := OpenWith(context.Background(), &world{grantLag: ttl}, &world{}, Options{TTL: ttl}); !errors.Is(err, lease.ErrLost) {
		t.Fatal(err)
	}
}

func TestLossAndEnd(t *testing.T) {
	gone := messages.NewError(messages.Code_CODE_LEASE_NOT_FOUND, "")
	t.Run("the cluster's word loses it at once, with that cause", func(t *testing.T) {
		w := &world{}
		s := open(t, w)
		w.observer.Lost(gone)
		held(t, s, false)
		if err := s.Lease().Err(); !errors.Is(err, gone) {
			t.Fatal(err)
		}
		w.advance(20 * time.Second)
		if errors.Is(s.Lease().Err(), ErrDeadline) {
			t.Fatal("the second cause won")
		}
	})
	t.Run("closing never signals, nor does what comes late", func(t *testing.T) {
		w := &world{}
		s := open(t, w)
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.observer.Confirmed(w.now, ttl)
		w.observer.Lost(gone)
		w.advance(20 * time.Second)
		held(t, s, true)
		if s.Lease().Err() != lease.ErrEnded || w.revokes != 1 || w.forgot != 1 {
			t.Fatal(s.Lease().Err(), w.revokes, w.forgot)
		}
	})
	t.Run("a close that failed can be repeated", func(t *testing.T) {
		w := &world{revErr: messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "")}
		s := open(t, w)
		if s.Close(context.Background()) == nil {
			t.Fatal("no error")
		}
		w.revErr = gone
		for range 2 {
			if err := s.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if w.revokes != 2 || w.forgot != 1 {
			t.Fatal(w.revokes, w.forgot)
		}
	})
	t.Run("an abandoned one is not revoked", func(t *testing.T) {
		w := &world{}
		s := open(t, w)
		s.Abandon()
		if w.revokes != 0 || s.Lease().Err() != lease.ErrEnded {
			t.Fatal(w.revokes, s.Lease().Err())
		}
	})
	t.Run("the holder may close from the signal", func(t *testing.T) {
		w := &world{}
		s := open(t, w)
		closed := make(chan error, 1)
		context.AfterFunc(s.Lease().Context(), func() { closed <- s.Close(context.Background()) })
		w.observer.Lost(gone)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
	})
}

func TestCheck(t *testing.T) {
	w := &world{}
	s := open(t, w)
	w.advance(9 * time.Second)
	if err := s.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := s.Remaining(); got != span {
		t.Fatalf("remaining %v, want %v", got, span)
	}
	w.checkErr = messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "")
	if err := s.Check(context.Background()); err == nil || errors.Is(err, lease.ErrLost) {
		t.Fatal(err)
	}
	held(t, s, true)
	w.checkErr = messages.NewError(messages.Code_CODE_LEASE_NOT_FOUND, "")
	if err := s.Check(context.Background()); !errors.Is(err, lease.ErrLost) {
		t.Fatal(err)
	}
	held(t, s, false)
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{TTL: time.Millisecond}, {Drift: -1}, {Drift: 0.5}, {Lateness: -1}, {StopMargin: -1}, {TTL: time.Second, StopMargin: time.Second},
	} {
		if _, err := OpenWith(context.Background(), &world{}, &world{}, o); messages.CodeOf(err) != messages.Code_CODE_INVALID_ARGUMENT {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
