package consumer

import (
	"context"
	"slices"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// Defaults of Options.
const (
	AwayDefault       = 10 * time.Minute
	CheckpointDefault = time.Second
)

// Options of Run. The zero value works: a new cursor begins at the present.
type Options struct {
	// After is where a cursor that does not exist yet begins: after this revision. 0 is
	// from now, unless FromBeginning is set.
	After uint64
	// FromBeginning begins a new cursor with the oldest revision that can be replayed.
	FromBeginning bool
	// Away is how long the cursor outlives its consumer; default 10 minutes.
	Away time.Duration
	// Checkpoint is the least time between two checkpoints; default 1 s. Each is a
	// write. Negative: after every revision that was handled.
	Checkpoint time.Duration

	Prev     bool
	KeysOnly bool
	// Types to deliver; empty for all.
	Types []messages.EventType
	// CreditEvents and CreditBytes bound what waits in this process; see
	// client.WatchOptions.
	CreditEvents, CreditBytes uint32
	// OnStart is told where the consumer goes on, before the first revision.
	OnStart func(after uint64)
}

// Revision is what one revision changed in the selector.
type Revision struct {
	Revision uint64
	Events   []*messages.Event
	// Last is false only for a part of a revision larger than pipeline.JoinBytesMax,
	// with more parts to come. The cursor moves when all of them were handled.
	Last bool
}

// Run hands every revision to handle, in order, until ctx ends, handle fails, or the
// watch ends for a reason that resuming cannot mend. It returns that reason: the error
// of handle as it is, a *messages.Error otherwise. The revision whose handling failed
// comes again next time. Before it returns it makes a last checkpoint, for at most two
// seconds.
func Run(ctx context.Context, c *client.Client, name string, s *messages.Selector, opts Options, handle func(context.Context, Revision) error) error {
	if opts.Away == 0 {
		opts.Away = AwayDefault
	}
	if opts.Checkpoint == 0 {
		opts.Checkpoint = CheckpointDefault
	}
	r := &runner{client: c, name: name, opts: opts}
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.release()
	if opts.OnStart != nil {
		opts.OnStart(r.saved)
	}
	w, err := c.Watch(ctx, s, client.WatchOptions{
		After: client.AfterRevision(r.saved), Prev: opts.Prev, KeysOnly: opts.KeysOnly, Types: opts.Types,
		CreditEvents: opts.CreditEvents, CreditBytes: opts.CreditBytes, Progress: true,
	})
	if err != nil {
		return err
	}
	defer w.Close()
	err = r.loop(ctx, w, handle)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	// Why the loop ended says more than why its last checkpoint failed; the revisions
	// after the cursor come again.
	_ = r.checkpoint(last)
	return err
}

type runner struct {
	client *client.Client
	name   string
	opts   Options

	lease        uint64
	done, saved  uint64 // handled completely; what the cursor says
	checkpointed time.Duration
}

// loop handles batches until one fails; it returns that error. An idle selector moves on too, with the progress of the watch.
func (r *runner) loop(ctx context.Context, w *client.Watcher, handle func(context.Context, Revision) error) error {
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if n := len(b.Events); n > 0 {
			if err := handle(ctx, Revision{Revision: b.Events[n-1].Revision, Events: b.Events, Last: b.Last}); err != nil {
				return err
			}
		}
		if !b.Last {
			continue
		}
		r.done = max(r.done, b.To.GetRevision())
		if r.done == r.saved || r.client.Clock().Now()-r.checkpointed < r.opts.Checkpoint {
			continue
		}
		if err := r.checkpoint(ctx); err != nil {
			return err
		}
	}
}

// checkpoint moves the cursor to what was handled. A cursor that has gone meanwhile,
// because nobody could renew its lease, is made anew at the same place.
func (r *runner) checkpoint(ctx context.Context) error {
	if r.done == r.saved {
		return nil
	}
	_, err := r.client.CheckpointCursor(ctx, r.name, r.done)
	if messages.CodeOf(err) == messages.Code_CODE_CURSOR_NOT_FOUND {
		r.release()
		err = r.create(ctx, r.done)
	}
	if err != nil && !transient(err) {
		return err
	}
	if err == nil {
		r.saved = r.done
	}
	r.checkpointed = r.client.Clock().Now()
	return nil
}

// transient errors of a checkpoint stop nobody: the next one carries it.
func transient(err error) bool {
	switch messages.CodeOf(err) {
	case messages.Code_CODE_TIMEOUT, messages.Code_CODE_UNAVAILABLE, messages.Code_CODE_OVERLOADED,
		messages.Code_CODE_NO_LEADER, messages.Code_CODE_NO_QUORUM, messages.Code_CODE_NOT_READY,
		messages.Code_CODE_NODE_STOPPING:
		return true
	}
	return false
}

// open finds the cursor or makes it.
func (r *runner) open(ctx context.Context) error {
	after := r.opts.After
	for {
		cursors, err := r.client.Cursors(ctx)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(cursors, func(c *messages.CursorInfo) bool { return c.Name == r.name }); i >= 0 {
			found, err := r.adopt(ctx, cursors[i])
			if err != nil || found {
				return err
			}
		}
		if after == 0 {
			if after, err = r.begin(ctx); err != nil {
				return err
			}
		}
		err = r.create(ctx, after)
		switch code := messages.CodeOf(err); {
		case code == messages.Code_CODE_CURSOR_EXISTS: // somebody else was faster
		case code == messages.Code_CODE_COMPACTED && r.opts.After == 0:
			after = messages.DetailOf(err).GetCompactRevision()
		default:
			return err
		}
	}
}

// adopt goes on with a cursor that a consumer before this one left; false when its
// lease has ended meanwhile.
func (r *runner) adopt(ctx context.Context, c *messages.CursorInfo) (bool, error) {
	renewed, err := r.client.KeepAlive(ctx, c.LeaseId, r.opts.Away)
	switch messages.CodeOf(err) {
	case messages.Code_CODE_OK:
	case messages.Code_CODE_LEASE_NOT_FOUND:
		// Past its deadline, so it is about to go; close what hangs on it and begin anew
		// at the same place.
		if _, err := r.client.CloseCursor(ctx, r.name); err != nil && messages.CodeOf(err) != messages.Code_CODE_CURSOR_NOT_FOUND {
			return false, err
		}
		return true, r.create(ctx, c.AfterRevision)
	default:
		return false, err
	}
	r.keep(c.LeaseId, renewed.TTL, renewed.SentAt)
	r.done, r.saved = c.AfterRevision, c.AfterRevision
	return true, nil
}

// begin is where a new cursor begins without Options.After.
func (r *runner) begin(ctx context.Context) (uint64, error) {
	if r.opts.FromBeginning {
		s, err := r.client.Status(ctx)
		return s.GetCompactRevision(), err
	}
	now, err := r.client.Revision(ctx)
	return now.Revision, err
}

func (r *runner) create(ctx context.Context, after uint64) error {
	g, err := r.client.Grant(ctx, r.opts.Away, client.GrantOptions{Metadata: map[string][]byte{"cursor": []byte(r.name)}})
	if err != nil {
		return err
	}
	if _, err := r.client.OpenCursor(ctx, r.name, g.LeaseID, after); err != nil {
		_, _ = r.client.Revoke(ctx, g.LeaseID) // nothing hangs on it; it would end by itself
		return err
	}
	r.keep(g.LeaseID, g.TTL, g.SentAt)
	r.done, r.saved = after, after
	return nil
}

func (r *runner) keep(lease uint64, ttl, sentAt time.Duration) {
	r.lease = lease
	r.client.Keepalives().Keep(lease, ttl, sentAt, unobserved{})
}

// release stops renewing the lease; it lives on for Options.Away.
func (r *runner) release() {
	if r.lease != 0 {
		r.client.Keepalives().Forget(r.lease)
		r.lease = 0
	}
}

// unobserved hears nothing: a lease that is lost shows at the next checkpoint.
type unobserved struct{}

func (unobserved) Confirmed(time.Duration, time.Duration) {}
func (unobserved) Lost(error)                             {}
