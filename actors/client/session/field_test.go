package session_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) { recipetest.Main(m) }

// Faults that users of such systems reported, each as a test of its kind, with a real
// node. The deadline's arithmetic has its own tests, without one.

// renewals counts the keep-alives of one lease that a client sends.
func renewals(r *recipetest.Resident, id uint64) *atomic.Int32 {
	n := new(atomic.Int32)
	r.Wire.OnSend(func(m *messages.ClientMessage) {
		for _, op := range m.GetFrame().GetOperations() {
			if op.GetWrite().GetKeepAliveLease().GetLeaseId() == id {
				n.Add(1)
			}
		}
	})
	return n
}

func lost(t testing.TB, s *session.Session, cause error) {
	t.Helper()
	recipetest.Wait(t, s.Lease().Context().Done(), "the signal")
	if err := s.Lease().Err(); !errors.Is(err, lease.ErrLost) || cause != nil && !errors.Is(err, cause) {
		t.Fatalf("%v, want a loss by %v", err, cause)
	}
}

// After an error of any kind it tries again, and there is no state in which the signal
// has not fired past the deadline.
func TestB035KeepAliveStopsAfterOneError(t *testing.T) {
	faults := map[string]func(r *recipetest.Resident) (mend func()){
		"no answer": func(r *recipetest.Resident) func() {
			r.Wire.Drop(false, true)
			return func() { r.Wire.Drop(false, false) }
		},
		"not sent": func(r *recipetest.Resident) func() {
			r.Wire.Drop(true, false)
			return func() { r.Wire.Drop(false, false) }
		},
		"connection": func(r *recipetest.Resident) func() { r.Wire.Refuse(true); return func() { r.Wire.Refuse(false) } },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			w := recipetest.New(t)
			r := w.Client(recipetest.Way)
			mended, over := r.Session(0), r.Session(0)
			mend := fault(r)
			r.Clock.Jump(21 * time.Second) // the keep-alive is due and fails
			r.Clock.Jump(5 * time.Second)
			mend()
			recipetest.Eventually(t, "it is renewed again", func() bool { return mended.Remaining() > 50*time.Second })
			recipetest.Eventually(t, "so is the other", func() bool { return over.Remaining() > 50*time.Second })
			defer fault(r)()
			r.Clock.Jump(over.Remaining() + time.Millisecond)
			if over.Lease().Err() == nil {
				t.Fatal("held past its deadline")
			}
			lost(t, over, session.ErrDeadline)
		})
	}
}

// Whether anybody looks at the session does not change how often it is renewed.
func TestB037CadenceDependsOnTheTTLOnly(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	n := renewals(r, s.LeaseID())
	const thirds = 12
	for i := range thirds {
		r.Pass(20 * time.Second)
		recipetest.Eventually(t, "the renewal", func() bool { return int(n.Load()) > i && s.Remaining() > 35*time.Second })
	}
	if got := n.Load(); got < thirds || got > thirds*3/2 { // an attempt that a jump overtook is made again
		t.Fatalf("%d renewals in %d thirds of the ttl", got, thirds)
	}
	r.Wire.Refuse(true)
	r.Clock.Jump(time.Minute)
	lost(t, s, session.ErrDeadline)
}

func TestB038ServersNeverComeBack(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	left := s.Remaining()
	if err := w.Node.Close(); err != nil {
		t.Fatal(err)
	}
	r.Clock.Jump(left)
	lost(t, s, session.ErrDeadline)
	first := s.Lease().Err()
	s.Abandon()
	if s.Lease().Err() != first {
		t.Fatal(s.Lease().Err())
	}
}

func TestB039PacketsDroppedInSilence(t *testing.T) {
	for name, drop := range map[string][2]bool{"both": {true, true}, "replies": {false, true}, "requests": {true, false}} {
		t.Run(name, func(t *testing.T) {
			w := recipetest.New(t)
			r := w.Client(recipetest.Way)
			s := r.Session(0)
			r.Wire.Drop(drop[0], drop[1])
			// Step by step, so that it may try: what is not confirmed extends nothing.
			for range 13 {
				r.Clock.Jump(5 * time.Second)
			}
			lost(t, s, session.ErrDeadline)
		})
	}
}

// The check reads the clock itself, whatever its goroutines do.
func TestB043NotDoneYetIsNotValid(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	r.Clock.Freeze()
	r.Clock.Jump(time.Minute)
	if s.Remaining() != 0 || !errors.Is(s.Lease().Err(), session.ErrDeadline) || s.Check(recipetest.Context(t)) == nil {
		t.Fatal(s.Remaining(), s.Lease().Err())
	}
	r.Clock.Thaw()
}

// No renewal after the end, though one was in flight; neither the end nor the late
// reply signals.
func TestB047EndWhileAKeepAliveIsInFlight(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	n := renewals(r, s.LeaseID())
	r.Pass(17_500 * time.Millisecond) // it is due after 18 to 20 s
	release := r.Wire.Hold()
	r.Clock.Jump(2_900 * time.Millisecond) // no longer than a connection may be silent
	recipetest.Eventually(t, "the keep-alive is sent", func() bool { return n.Load() > 0 })
	s.Abandon()
	sent := n.Load()
	release()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	r.Pass(time.Minute)
	if n.Load() != sent || s.Lease().Err() != lease.ErrEnded || s.Lease().Context().Err() != nil {
		t.Fatal(n.Load(), sent, s.Lease().Err())
	}
	if _, err := w.Admin().LeaseInfo(ctx, s.LeaseID(), client.LeaseInfoOptions{}); messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
		t.Fatal(err)
	}
}

// After the end nothing says that it lives.
func TestB049AliveAfterTheEnd(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	release := r.Wire.Hold()
	checked := make(chan error, 1)
	go func() { checked <- s.Check(ctx) }()
	r.Clock.Jump(21 * time.Second)
	s.Abandon()
	release()
	if s.Remaining() != 0 || s.Lease().Err() != lease.ErrEnded {
		t.Fatal(s.Remaining(), s.Lease().Err())
	}
	if err := recipetest.Wait(t, checked, "Check"); err == nil {
		t.Fatal("alive after the end")
	}
}

// Nothing blocks for ever where nobody answers and the caller set no deadline.
func TestB053NoDeadline(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	r.Wire.Drop(true, true)
	ctx := context.Background()
	calls := map[string]func() error{
		"open":      func() error { _, err := session.Open(ctx, r.Client, session.Options{}); return err },
		"check":     func() error { return s.Check(ctx) },
		"keepalive": func() error { _, err := r.KeepAlive(ctx, s.LeaseID(), 0); return err },
		"release":   func() error { return s.Release(ctx, "/x", 1) },
		"close":     func() error { return s.Close(ctx) },
	}
	var wg sync.WaitGroup
	for name, call := range calls {
		wg.Go(func() {
			err := call()
			var e *messages.Error
			if err != nil && !errors.As(err, &e) && err != lease.ErrEnded || err == nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for range 10 {
		r.Clock.Jump(time.Second) // the client's default is 5 s
	}
	recipetest.Wait(t, done, "all calls")
}

// A session that is tied to its work ends when that hangs, though the process and its
// keep-alives are fine.
func TestB055TheWorkHangs(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	s, err := session.Open(ctx, r.Client, session.Options{TTL: time.Minute, ProgressWithin: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	n := renewals(r, s.LeaseID())
	for i := range 4 {
		r.Pass(21 * time.Second)
		s.Progress()
		recipetest.Eventually(t, "the renewal", func() bool { return int(n.Load()) > i })
		if err := s.Lease().Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.Clock.Jump(31 * time.Second)
	lost(t, s, session.ErrStalled)
	if _, err := r.Revision(ctx); err != nil {
		t.Fatal(err)
	}
	sent := n.Load()
	r.Clock.Jump(time.Minute)
	if _, err := r.Revision(ctx); err != nil || n.Load() != sent {
		t.Fatal(err, n.Load(), sent)
	}
}

// The reply is late: what counts is when the request was sent.
func TestB057DeadlineCountsFromTheRequest(t *testing.T) {
	for late := time.Second; late < 2*time.Minute; late += 17 * time.Second {
		w := recipetest.New(t)
		r := w.Client(recipetest.Way)
		if _, err := r.Revision(recipetest.Context(t)); err != nil {
			t.Fatal(err)
		}
		release := r.Wire.Hold()
		asked := r.Clock.Now()
		type opened struct {
			s   *session.Session
			err error
		}
		c := make(chan opened, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // of real time; the clock's goes faster
		go func() {
			s, err := session.Open(ctx, r.Client, session.Options{TTL: time.Minute})
			c <- opened{s, err}
		}()
		recipetest.Eventually(t, "the lease is granted", func() bool {
			page, err := w.Admin().LeaseList(ctx, client.LeaseListOptions{})
			return err == nil && len(page.Leases) > 0
		})
		r.Clock.Jump(late)
		release()
		got := recipetest.Wait(t, c, "the session")
		cancel()
		if got.err != nil {
			if late < 55*time.Second && !errors.Is(got.err, lease.ErrLost) {
				t.Fatal(late, got.err)
			}
			continue
		}
		if end := r.Clock.Now() + got.s.Remaining(); end > asked+time.Minute && late > 20*time.Second {
			// It may have been asked for again after the jump, but then it was sent later.
			if got.s.Remaining() > time.Minute {
				t.Fatalf("%v late: until %v after it was asked for", late, end-asked)
			}
		}
	}
}

// The revoke and a renewal cross: the lease is gone at the first revoke that is applied.
func TestB079ReleaseAndRenewalCross(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	for i := range 20 {
		s := r.Session(0)
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.Check(ctx) })
		if i%2 == 0 {
			r.Clock.Jump(21 * time.Second)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if s.Lease().Err() != lease.ErrEnded {
			t.Fatal(s.Lease().Err())
		}
		if _, err := w.Admin().LeaseInfo(ctx, s.LeaseID(), client.LeaseInfoOptions{}); messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
			t.Fatal(err)
		}
	}
	// Both lost once: the second Close finds nothing to do.
	s := r.Session(0)
	r.Wire.Drop(false, true)
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	if err := s.Close(short); err == nil {
		t.Fatal("nobody can have confirmed that")
	}
	r.Wire.Drop(false, false)
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// What hangs on a session is told inside Close, before its lease is revoked, and may
// call back.
func TestB221CallbacksMayCallBack(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	s := w.Client(recipetest.Way).Session(0)
	told := 0
	s.Attach(func(err error) {
		told++
		if _, e := w.Admin().LeaseInfo(ctx, s.LeaseID(), client.LeaseInfoOptions{}); e != nil || err != lease.ErrEnded {
			t.Error("told after the revoke:", e, err)
		}
		s.Abandon()
		_ = s.Remaining()
		s.Attach(func(error) { told++ })()
	})
	s.Attach(func(error) { told += 100 })() // detached
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := s.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if told != 2 {
		t.Fatal(told)
	}
}

// The last hold on what is left: a key that cannot be deleted for a ttl costs the
// session.
func TestCleanUpGivesUp(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	s := r.Session(0)
	if _, err := r.Put(ctx, "/mine", nil, client.PutOptions{LeaseID: s.LeaseID()}); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Release(over, "/mine", 0); err == nil {
		t.Fatal("confirmed without being asked")
	}
	recipetest.Eventually(t, "it goes on in the background", func() bool { return len(w.Keys("/mine")) == 0 && s.CleaningUp() == 0 })

	r.Wire.Refuse(true)
	if err := s.Release(over, "/mine", 1); err == nil || s.CleaningUp() != 1 {
		t.Fatal(err, s.CleaningUp())
	}
	r.Clock.Jump(time.Minute)
	lost(t, s, nil)
}
