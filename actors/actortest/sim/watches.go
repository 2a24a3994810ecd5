package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/concord-kv/concord/actors/actortest/watchcheck"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// watched is a watch of the workload and what it has delivered.
type watched struct {
	name    string
	client  *Client
	lo, hi  string // the selector's keys
	from    uint64 // asked for; 0 is from now
	stalled bool   // its consumer does not take what comes

	w       *client.Watcher
	check   *watchcheck.Check
	opening bool
	end     error
	mayHave bool // something may have come since the last look
	lines   []string
}

// over is a context that has ended: Next then only looks.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (x *watched) ready() bool { return x.w != nil && x.end == nil && x.mayHave && !x.stalled }

// started takes the watch once it has begun.
func (x *watched) started(w *client.Watcher) {
	x.w, x.mayHave = w, true
	x.client.world.watchStats.Begun++
	world, begins := x.client.world, w.Start().FromRevision
	if x.from != 0 && begins != x.from {
		world.failf("watch-start", "%s asked for revision %d and begins at %d", x.name, x.from, begins)
	}
	x.check = watchcheck.New(x.name, world.truth.changes, begins, watchcheck.Options{
		Selects: func(key string) bool { return key >= x.lo && (x.hi == "" || key < x.hi) },
	})
}

// poll takes one batch, if there is one, and holds it against the truth.
func (x *watched) poll() {
	world := x.client.world
	b, err := x.w.Next(over)
	if err != nil {
		if messages.CodeOf(err) == messages.Code_CODE_CANCELLED {
			x.mayHave = false
			return
		}
		world.trace("watch %s ends %v", x.name, messages.CodeOf(err))
		x.end = err
		x.lines = append(x.lines, "end "+messages.CodeName(messages.CodeOf(err)))
		x.ended(err)
		return
	}
	world.trace("watch %s %d events to (%d, %d)", x.name, len(b.Events), b.To.GetRevision(), b.To.GetOpIndex())
	x.batch(b)
}

// batch checks the promises of a watch, each of which has its name.
func (x *watched) batch(b client.WatchBatch) {
	w := x.client.world
	for _, e := range b.Events {
		x.lines = append(x.lines, eventLine(e))
		if want := w.truth.event(e.Revision, e.OpIndex); want == nil || e.Cause != want.Rec.Cause() || string(e.Record.GetKey()) != want.Rec.Key() {
			w.failf("watch-true", "%s: event (%d, %d) is %s: there is no such event", x.name, e.Revision, e.OpIndex, eventLine(e))
			return
		}
	}
	if to := b.To.GetRevision(); b.Last && to > w.truth.revision() {
		w.failf("watch-progress-honest", "%s: progress to %d, the cluster is at %d", x.name, to, w.truth.revision())
		return
	}
	err := x.check.Batch(b)
	if err == nil {
		err = x.check.Verify(0) // everything that can come is in the truth already
	}
	x.broken(err)
}

func (x *watched) broken(err error) {
	if v := (*watchcheck.Violation)(nil); errors.As(err, &v) {
		x.client.world.failf("watch-"+string(v.Promise), "%s: %s", v.Watch, v.Text)
	}
}

func eventLine(e *messages.Event) string {
	if e.Type == messages.EventType_EVENT_TYPE_DELETE {
		cause := map[messages.EventCause]string{
			messages.EventCause_EVENT_CAUSE_DELETED: "deleted", messages.EventCause_EVENT_CAUSE_EXPIRED: "expired",
			messages.EventCause_EVENT_CAUSE_REVOKED: "revoked",
		}[e.Cause]
		return fmt.Sprintf("%d.%d %s %s", e.Revision, e.OpIndex, cause, e.Record.GetKey())
	}
	return fmt.Sprintf("%d.%d put %s=%s", e.Revision, e.OpIndex, e.Record.GetKey(), e.Record.GetValue())
}

// ended checks that a watch that has ended had a reason to.
func (x *watched) ended(err error) {
	w := x.client.world
	if messages.CodeOf(err) != messages.Code_CODE_COMPACTED {
		w.failf("watch-ends-with-reason", "%s: %v", x.name, err)
	}
	w.watchStats.Ended++
	x.broken(x.check.Ended(err, w.truth.compact))
}

func (x *watched) selected(revision uint64) (events []store.Event) {
	t := &x.client.world.truth
	if revision == 0 || revision > t.revision() {
		return nil
	}
	for _, e := range t.events[revision-1] {
		if k := e.Rec.Key(); k >= x.lo && (x.hi == "" || k < x.hi) {
			events = append(events, e)
		}
	}
	return events
}

// missing returns the first revision from..to that has events for this watch; 0 if
// none has.
func (x *watched) missing(from, to uint64) uint64 {
	for r := from; r <= min(to, x.client.world.truth.revision()); r++ {
		if len(x.selected(r)) > 0 {
			return r
		}
	}
	return 0
}

// complete checks, at the end, that everything has come.
func (x *watched) complete() {
	if x.w == nil || x.end != nil || x.stalled {
		return
	}
	w := x.client.world
	if missed := x.missing(x.check.Next(), w.truth.revision()); missed != 0 {
		w.failf("watch-complete", "%s has come to %d and never got revision %d", x.name, x.check.Next()-1, missed)
	}
}
