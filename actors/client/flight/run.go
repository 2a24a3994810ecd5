package flight

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/internal/line"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/messages"
)

// What the content type of a run's key says. The key exists while it runs. In the end
// one transaction puts the outcome and deletes it: who joined sees both events, and who
// asks later sees no key.
const (
	typeRunning     = "application/vnd.concord.flight.running"
	typeValue       = "application/vnd.concord.flight.value"
	typeFailed      = "application/vnd.concord.flight.failed"
	typeInterrupted = "application/vnd.concord.flight.interrupted"

	textBytesMax = 64 << 10
)

func (c *call) runKey() string { return c.prefix + "run" }

// other is a run of somebody else.
type other struct {
	created uint64 // create revision of its key
	seen    uint64 // revision at which it ran
}

// ask gets the right to run, or finds who has it.
func (g *Group) ask(ctx context.Context, c *call) (*line.Hold, other, error) {
	s := g.session
	if err := s.Lease().Err(); err != nil {
		return nil, other{}, err
	}
	key, name := c.runKey(), []byte(s.UniqueName())
	r, err := client.If(client.Exists(key, false)).
		Then(client.OpPut(key, name, client.PutOptions{LeaseID: s.LeaseID(), NoPrev: true, ContentType: typeRunning})).
		Else(client.OpGet(client.KeySelector(key), 0)).Commit(ctx, s.Client())
	if err != nil {
		s.Refused(err)
		if messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
			g.clean(key, client.Value(key, client.Equal, name))
		}
		if over := s.Lease().Err(); over != nil {
			return nil, other{}, over
		}
		return nil, other{}, err
	}
	if r.Succeeded {
		return line.NewHold(s, "flight "+c.key, key, r.Revision, false), other{}, nil
	}
	records := r.Responses[0].GetGet().GetRecords()
	if len(records) != 1 {
		return nil, other{}, messages.NewError(messages.Code_CODE_PROTOCOL, "a key that exists was not shown")
	}
	return nil, other{created: records[0].CreateRevision, seen: r.Revision}, nil
}

// clean deletes a key that may be this process's, and waits a moment for it.
func (g *Group) clean(key string, mine *messages.Compare) {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_ = g.session.ReleaseIf(ctx, key, mine)
}

// run runs fn and tells all who wait what it came to.
func (g *Group) run(ctx context.Context, c *call, hold *line.Hold, fn Func) {
	l := hold.Lease()
	value, outcome, err := g.protect(ctx, c, l, func(ctx context.Context) ([]byte, error) {
		return fn(ctx, &Run{hold: hold})
	})
	if l.Err() != nil {
		g.clean(hold.Key(), client.CreateRevision(hold.Key(), client.Equal, hold.Token()))
		c.err = lostBy(l.Err(), err)
		hold.End()
		return
	}
	// Before the key goes: its deletion is no loss.
	left := hold.Session().Remaining()
	hold.End()
	if delivered := g.deliver(hold, outcome, left); delivered != nil {
		c.err = delivered
		if errors.Is(c.err, errNotHeld) {
			c.err = &lease.LostError{Subject: l.Subject(), Cause: line.ErrKeyGone, Work: err}
		}
		return
	}
	switch {
	case outcome.kind == typeInterrupted:
		c.err = &InterruptedError{Key: c.key, Reason: string(outcome.body)}
	case err != nil:
		c.err = &FailedError{Key: c.key, Text: err.Error(), Err: err}
	default:
		c.result = Result{Value: value}
	}
}

// protect calls fn so that whatever it does the run has an outcome.
func (g *Group) protect(ctx context.Context, c *call, l *lease.Lease, fn func(context.Context) ([]byte, error)) (value []byte, o outcome, err error) {
	ended := make(chan struct{})
	go func() {
		returned := false
		defer func() {
			if !returned {
				if v := recover(); v != nil {
					c.panic = &PanicError{Value: v, Stack: debug.Stack()}
				} else {
					c.exited = true
				}
			}
			close(ended)
		}()
		err = lease.With(ctx, l, func(ctx context.Context) (e error) {
			value, e = fn(ctx)
			return e
		})
		returned = true
	}()
	<-ended
	switch {
	case c.panic != nil:
		return nil, outcome{typeInterrupted, []byte("it panicked")}, nil
	case c.exited:
		return nil, outcome{typeInterrupted, []byte("it ended its goroutine")}, nil
	case err != nil:
		text := err.Error()
		return nil, outcome{typeFailed, []byte(text[:min(len(text), textBytesMax)])}, err
	}
	return value, outcome{typeValue, value}, nil
}

// lostBy adds to the loss what fn returned.
func lostBy(over, work error) error {
	var lost *lease.LostError
	if !errors.As(over, &lost) {
		return over
	}
	//nolint:errorlint // only the one that lease.With made, not one that fn has wrapped
	if w, ok := work.(*lease.LostError); ok && w.Subject == lost.Subject {
		work = w.Work // lease.With has put it there
	}
	return &lease.LostError{Subject: lost.Subject, Cause: lost.Cause, Work: work}
}
