package sim

import (
	"context"
	"fmt"

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

	w        *client.Watcher
	opening  bool
	next     uint64 // the next revision that may be delivered
	events   int
	progress uint64
	end      error
	mayHave  bool // something may have come since the last look
	lines    []string
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
	x.next = w.Start().FromRevision
	if x.from != 0 && x.next != x.from {
		x.client.world.failf("watch-start", "%s asked for revision %d and begins at %d", x.name, x.from, x.next)
	}
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

// batch checks the promises of a watch. Each has its name.
func (x *watched) batch(b client.WatchBatch) {
	w := x.client.world
	for len(b.Events) > 0 {
		r := b.Events[0].Revision
		if r < x.next {
			w.failf("watch-ordered", "%s: revision %d after %d", x.name, r, x.next-1)
			return
		}
		// Whatever lies between must have nothing for this watch.
		if missed := x.missing(x.next, r-1); missed != 0 {
			w.failf("watch-gap-free", "%s: revision %d was skipped; %d came", x.name, missed, r)
			return
		}
		want := x.selected(r)
		n := 0
		for n < len(b.Events) && b.Events[n].Revision == r {
			n++
		}
		if n != len(want) {
			w.failf("watch-atomic", "%s: %d events of revision %d, which has %d", x.name, n, r, len(want))
			return
		}
		for i, e := range b.Events[:n] {
			if e.OpIndex != want[i].Rec.OpIndex() || string(e.Record.GetKey()) != want[i].Rec.Key() ||
				string(e.Record.GetValue()) != want[i].Rec.Value() || e.Cause != want[i].Rec.Cause() ||
				(e.Type == messages.EventType_EVENT_TYPE_DELETE) != want[i].Rec.Tombstone() {
				w.failf("watch-true", "%s: event (%d, %d) is %v %q=%q, in truth %q=%q", x.name, r, e.OpIndex,
					e.Type, e.Record.GetKey(), e.Record.GetValue(), want[i].Rec.Key(), want[i].Rec.Value())
				return
			}
			x.lines = append(x.lines, eventLine(e))
		}
		x.events += n
		x.next = r + 1
		b.Events = b.Events[n:]
	}
	// To is complete: everything up to it has been delivered.
	if to := b.To.GetRevision(); b.Last && to >= x.next {
		if missed := x.missing(x.next, to); missed != 0 {
			w.failf("watch-progress-honest", "%s: progress to %d, but revision %d was not delivered", x.name, to, missed)
			return
		}
		if to > w.truth.revision() {
			w.failf("watch-progress-honest", "%s: progress to %d, the cluster is at %d", x.name, to, w.truth.revision())
			return
		}
		x.next = to + 1
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
	switch code := messages.CodeOf(err); code {
	case messages.Code_CODE_COMPACTED:
		if x.next > w.truth.compact {
			w.failf("watch-ends-with-reason", "%s: compacted, but the next revision is %d and %d are gone", x.name, x.next, w.truth.compact)
		}
	default:
		w.failf("watch-ends-with-reason", "%s: %v", x.name, err)
	}
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
	if missed := x.missing(x.next, w.truth.revision()); missed != 0 {
		w.failf("watch-complete", "%s has come to %d and never got revision %d", x.name, x.next-1, missed)
	}
}
