package registration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/registration"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) { recipetest.Main(m) }

const key = "/services/a"

func value(t testing.TB, w *recipetest.Town) string {
	t.Helper()
	g, err := w.Admin().Get(recipetest.Context(t), key, client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if g.Record == nil {
		return "none"
	}
	return string(g.Record.Value)
}

func open(t testing.TB, r *recipetest.Resident, text string, opts registration.Options) (*registration.Registration, <-chan registration.State) {
	t.Helper()
	states := make(chan registration.State, 100)
	opts.Changed = func(s registration.State) { states <- s }
	if opts.Session.TTL == 0 {
		opts.Session.TTL = time.Minute
	}
	reg, err := registration.Open(recipetest.Context(t), r.Client, key, []byte(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	if s := recipetest.Wait(t, states, "the first state"); !s.Registered || s.LeaseID == 0 || s.Revision == 0 || s.Err != nil {
		t.Fatal(s)
	}
	return reg, states
}

func TestRegistration(t *testing.T) {
	for _, kind := range []string{recipetest.Way} {
		t.Run(kind, func(t *testing.T) {
			w := recipetest.New(t)
			ctx := recipetest.Context(t)
			reg, states := open(t, w.Client(kind), "v1", registration.Options{ContentType: "text/plain"})
			lease := reg.State().LeaseID
			if value(t, w) != "v1" {
				t.Fatal(value(t, w))
			}
			if err := reg.Update(ctx, []byte("v2")); err != nil || value(t, w) != "v2" {
				t.Fatal(err, value(t, w))
			}
			_, err := registration.Open(ctx, w.Client(kind).Client, key, nil, registration.Options{})
			if !errors.Is(err, registration.ErrTaken) {
				t.Fatal(err)
			}
			for range 2 {
				if err := reg.Close(ctx); err != nil || value(t, w) != "none" {
					t.Fatal(err, value(t, w))
				}
			}
			recipetest.Wait(t, reg.Done(), "Done")
			if s := reg.State(); s.Registered || s.Err != registration.ErrClosed || len(states) != 0 {
				t.Fatal(s, len(states))
			}
			if _, err := w.Admin().LeaseInfo(ctx, lease, client.LeaseInfoOptions{}); messages.CodeOf(err) != messages.Code_CODE_LEASE_NOT_FOUND {
				t.Fatal(err)
			}
		})
	}
}

func TestLostWithoutRenew(t *testing.T) {
	w := recipetest.New(t)
	r := w.Client(recipetest.Way)
	reg, states := open(t, r, "v", registration.Options{})
	w.Delete(key)
	if s := recipetest.Wait(t, states, "the loss"); s.Registered || !errors.Is(s.Err, lease.ErrLost) {
		t.Fatal(s)
	}
	recipetest.Wait(t, reg.Done(), "Done")
	if err := reg.Update(recipetest.Context(t), nil); !errors.Is(err, lease.ErrLost) {
		t.Fatal(err)
	}
	if err := reg.Close(recipetest.Context(t)); err != nil || value(t, w) != "none" {
		t.Fatal(err)
	}
}

// Cut off for longer than its lease, it comes back on a new session with the value of
// now, and says so.
func TestRenew(t *testing.T) {
	w := recipetest.New(t)
	ctx := recipetest.Context(t)
	r := w.Client(recipetest.Way)
	reg, states := open(t, r, "v1", registration.Options{Renew: true})
	first := reg.State()
	r.Wire.Refuse(true)
	r.Clock.Jump(2 * time.Minute)
	if s := recipetest.Wait(t, states, "the loss"); !errors.Is(s.Err, session.ErrDeadline) {
		t.Fatal(s)
	}
	if err := reg.Update(ctx, []byte("v2")); !errors.Is(err, lease.ErrLost) {
		t.Fatal(err)
	}
	if _, err := w.Admin().Revoke(ctx, first.LeaseID); err != nil {
		t.Fatal(err)
	}
	r.Wire.Refuse(false)
	s := recipetest.Wait(t, states, "the renewal")
	if !s.Registered || s.LeaseID == first.LeaseID || s.Revision <= first.Revision || value(t, w) != "v2" {
		t.Fatal(s, value(t, w))
	}
	w.Delete(key) // by an operator: it comes back too
	if s := recipetest.Wait(t, states, "the loss"); s.Registered {
		t.Fatal(s)
	}
	if s := recipetest.Wait(t, states, "the renewal"); !s.Registered {
		t.Fatal(s)
	}
	if err := reg.Close(ctx); err != nil || value(t, w) != "none" {
		t.Fatal(err)
	}
}

// A process that was restarted waits for the key of its former life.
func TestWait(t *testing.T) {
	w := recipetest.New(t)
	former, _ := open(t, w.Client(recipetest.Way), "former", registration.Options{})
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	r := w.Client(recipetest.Way)
	if _, err := registration.Open(short, r.Client, key, nil, registration.Options{Wait: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	opened := make(chan *registration.Registration, 1)
	go func() {
		reg, err := registration.Open(recipetest.Context(t), r.Client, key, []byte("new"), registration.Options{Wait: true})
		if err != nil {
			t.Error(err)
		}
		opened <- reg
	}()
	if _, err := w.Admin().Revoke(recipetest.Context(t), former.State().LeaseID); err != nil {
		t.Fatal(err)
	}
	reg := recipetest.Wait(t, opened, "the new registration")
	if value(t, w) != "new" {
		t.Fatal(value(t, w))
	}
	if err := reg.Close(recipetest.Context(t)); err != nil {
		t.Fatal(err)
	}
	_ = former.Close(recipetest.Context(t))
}

// The client is closed: the registration ends by itself, also one that renews.
func TestClientCloses(t *testing.T) {
	w := recipetest.New(t)
	for _, renew := range []bool{false, true} {
		r := w.Client(recipetest.Way)
		reg, _ := open(t, r, "v", registration.Options{Renew: renew})
		lease := reg.State().LeaseID
		_ = r.Close()
		recipetest.Wait(t, reg.Done(), "Done")
		if s := reg.State(); s.Registered || s.Err == nil {
			t.Fatal(s)
		}
		if _, err := w.Admin().Revoke(recipetest.Context(t), lease); err != nil {
			t.Fatal(err)
		}
	}
}
