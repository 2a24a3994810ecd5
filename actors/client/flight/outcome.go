package flight

import (
	"context"
	"errors"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/internal/line"
	"github.com/concord-kv/concord/messages"
)

const joinRetry = 50 * time.Millisecond

// outcome is what a run came to, as it travels.
type outcome struct {
	kind string // one of the content types
	body []byte
}

// errNotHeld says that the run's key was not there any more.
var errNotHeld = errors.New("the run was not held any more")

// deliver puts the outcome and deletes the key in one transaction, while the run is
// held. left is how long it surely is.
func (g *Group) deliver(hold *line.Hold, o outcome, left time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), max(left, 10*time.Millisecond))
	defer cancel()
	s, key := hold.Session(), hold.Key()
	mine := client.CreateRevision(key, client.Equal, hold.Token())
	r, err := client.If(mine).Then(
		client.OpPut(key, o.body, client.PutOptions{LeaseID: s.LeaseID(), NoPrev: true, ContentType: o.kind}),
		client.OpDelete(client.KeySelector(key), client.DeleteOptions{}),
	).Commit(ctx, s.Client())
	switch {
	case err == nil && r.Succeeded:
		return nil
	case err == nil:
		return errNotHeld
	case messages.OutcomeOf(err) == messages.Outcome_OUTCOME_NOT_APPLIED && o.kind == typeValue && ctx.Err() == nil:
		// Refused for what it is, a value too large above all: those who joined must hear.
		_ = g.deliver(hold, outcome{typeFailed, []byte("its value could not be shared: " + err.Error())}, left)
		return err
	}
	g.clean(key, mine)
	return err
}

// join waits for the outcome of another's run.
func (g *Group) join(ctx context.Context, c *call, o other) (Result, error) {
	s := g.session
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.Attach(func(error) { cancel() })()
	for {
		r, err := g.follow(ctx, c, &o)
		if err != errGoOn {
			return r, err
		}
		if !client.Pause(ctx, s.Client().Clock(), joinRetry) {
			if over := s.Lease().Err(); over != nil {
				return Result{}, over
			}
			return Result{}, withdrawn(ctx)
		}
	}
}

// errGoOn says that a watch ended and the run may not have.
var errGoOn = errors.New("go on")

// follow watches the run's key until it is deleted.
func (g *Group) follow(ctx context.Context, c *call, o *other) (Result, error) {
	store := g.session.Client()
	w, err := store.Watch(ctx, client.KeySelector(c.runKey()), client.WatchOptions{From: o.seen + 1})
	if err != nil {
		return g.look(ctx, c, o)
	}
	defer w.Close()
	said := outcome{typeInterrupted, []byte("its process died or lost the right")}
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return g.look(ctx, c, o)
		}
		for _, ev := range b.Events {
			if ev.Type == messages.EventType_EVENT_TYPE_DELETE {
				return c.cameTo(said)
			}
			if ev.Record.CreateRevision == o.created && ev.Record.ContentType != typeRunning {
				said = outcome{ev.Record.ContentType, ev.Record.Value}
			}
		}
	}
}

// look finds out whether the run still goes on when it cannot be watched.
func (g *Group) look(ctx context.Context, c *call, o *other) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, errGoOn
	}
	r, err := g.session.Client().Get(ctx, c.runKey(), client.GetOptions{})
	switch {
	case err != nil && messages.CodeOf(err) == messages.Code_CODE_CANCELLED && ctx.Err() == nil:
		return Result{}, err // the client is closed
	case err != nil:
		return Result{}, errGoOn // it took the client's timeout
	case r.Record.GetCreateRevision() != o.created:
		return c.cameTo(outcome{typeInterrupted, []byte("it ended, and what it came to was not kept")})
	}
	o.seen = r.Revision
	return Result{}, errGoOn
}

func (c *call) cameTo(o outcome) (Result, error) {
	switch o.kind {
	case typeValue:
		return Result{Value: o.body}, nil
	case typeFailed:
		return Result{}, &FailedError{Key: c.key, Text: string(o.body)}
	}
	return Result{}, &InterruptedError{Key: c.key, Reason: string(o.body)}
}
