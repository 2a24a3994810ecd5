package watchcheck

import (
	"fmt"
	"slices"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// Promise names what a watch owes its consumer.
type Promise string

// The promises.
const (
	Ordered   Promise = "ordered"           // each event is after the one before
	Unique    Promise = "unique"            // none comes twice
	GapFree   Promise = "gap-free"          // between two positions nothing is missing
	Atomic    Promise = "atomic"            // a revision comes whole
	True      Promise = "true"              // it says what was written
	Resumable Promise = "resumable"         // every end names a reason, and a place from which nothing is missing
	Honest    Promise = "progress-honest"   // a position is not beyond what was delivered, and never goes back
	Filtered  Promise = "filtered"          // nothing comes that was not asked for
	Complete  Promise = "complete-in-order" // Verify: everything has come
)

// Violation is a promise that was broken.
type Violation struct {
	Watch   string
	Promise Promise
	Text    string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("watch %s: %s: %s", v.Watch, v.Promise, v.Text)
}

// Options say what the watch was asked for.
type Options struct {
	// Selects tells which keys; nil for all.
	Selects func(key string) bool
	// PutsOnly is a watch that filters deletes out.
	PutsOnly bool
	KeysOnly bool
}

// Check follows one watch, over all its resumptions. One goroutine uses it.
type Check struct {
	name  string
	truth *Truth
	opts  Options

	next    uint64 // the first revision that may come
	events  int
	parts   []*messages.Event // of a revision that comes in parts
	pending []delivered       // not compared with the truth yet: their write may be unacknowledged
}

type delivered struct {
	revision, after uint64 // nothing of the revisions between was delivered
	changes         []Change
}

// New returns a check of a watch whose first revision may be from.
func New(name string, truth *Truth, from uint64, opts Options) *Check {
	if opts.Selects == nil {
		opts.Selects = func(string) bool { return true }
	}
	return &Check{name: name, truth: truth, next: max(from, 1), opts: opts}
}

// Events returns how many have come.
func (c *Check) Events() int { return c.events }

// Next returns the first revision that has not come completely: where a watch that goes
// on begins.
func (c *Check) Next() uint64 { return c.next }

func (c *Check) broken(p Promise, format string, args ...any) error {
	return &Violation{Watch: c.name, Promise: p, Text: fmt.Sprintf(format, args...)}
}

// Batch takes what the watch has delivered.
func (c *Check) Batch(b client.WatchBatch) error {
	for _, e := range b.Events {
		if err := c.event(e); err != nil {
			return err
		}
	}
	to := b.To.GetRevision()
	if !b.Last {
		if len(b.Events) == 0 {
			return c.broken(Atomic, "a part without events")
		}
		return nil
	}
	if n := len(c.parts); n > 0 {
		r := c.parts[n-1].Revision
		if to < r {
			return c.broken(Honest, "revision %d was delivered, the position is %d", r, to)
		}
		if err := c.close(r); err != nil {
			return err
		}
	}
	if to+1 < c.next {
		return c.broken(Honest, "the position went back from %d to %d", c.next-1, to)
	}
	if to >= c.next {
		c.pending = append(c.pending, delivered{revision: to, after: c.next - 1})
		c.next = to + 1
	}
	return nil
}

func (c *Check) event(e *messages.Event) error {
	if n := len(c.parts); n > 0 {
		last := c.parts[n-1]
		switch {
		case e.Revision == last.Revision && e.OpIndex == last.OpIndex:
			return c.broken(Unique, "event (%d, %d) came twice", e.Revision, e.OpIndex)
		case e.Revision < last.Revision || e.Revision == last.Revision && e.OpIndex < last.OpIndex:
			return c.broken(Ordered, "event (%d, %d) after (%d, %d)", e.Revision, e.OpIndex, last.Revision, last.OpIndex)
		case e.Revision > last.Revision:
			return c.broken(Atomic, "revision %d began before %d was complete", e.Revision, last.Revision)
		}
	}
	if e.Revision < c.next {
		return c.broken(Unique, "revision %d came, which was complete; next is %d", e.Revision, c.next)
	}
	key := string(e.GetRecord().GetKey())
	if !c.opts.Selects(key) || c.opts.PutsOnly && e.Type == messages.EventType_EVENT_TYPE_DELETE ||
		c.opts.KeysOnly && len(e.GetRecord().GetValue()) > 0 {
		return c.broken(Filtered, "%v of %q was not asked for", e.Type, key)
	}
	c.parts = append(c.parts, e)
	return nil
}

// close ends a revision.
func (c *Check) close(revision uint64) error {
	d := delivered{revision: revision, after: c.next - 1}
	for _, e := range c.parts {
		if e.Type != messages.EventType_EVENT_TYPE_PUT && e.Type != messages.EventType_EVENT_TYPE_DELETE {
			return c.broken(True, "an event of type %v", e.Type)
		}
		d.changes = append(d.changes, Change{
			Key: string(e.GetRecord().GetKey()), Value: string(e.GetRecord().GetValue()),
			Deleted: e.Type == messages.EventType_EVENT_TYPE_DELETE,
		})
	}
	c.events += len(c.parts)
	c.parts = nil
	c.pending = append(c.pending, d)
	c.next = revision + 1
	return nil
}

// Ended takes the reason for which the watch ended. compactedTo is the cluster's compact
// revision, of which the end may only speak when it is past the watch.
func (c *Check) Ended(err error, compactedTo uint64) error {
	switch code := messages.CodeOf(err); code {
	case messages.Code_CODE_OK, messages.Code_CODE_INTERNAL:
		return c.broken(Resumable, "it ended without a reason: %v", err)
	case messages.Code_CODE_COMPACTED:
		if c.next > compactedTo {
			return c.broken(Resumable, "compacted, though revision %d comes next and %d is compacted", c.next, compactedTo)
		}
	}
	c.parts = nil // whoever resumes gets the revision again
	return nil
}

// Verify compares what has come with the truth, once every write is acknowledged that
// will be, and fails unless the watch has come to revision upTo.
func (c *Check) Verify(upTo uint64) error {
	for _, d := range c.pending {
		for r := d.after + 1; r < d.revision; r++ {
			if missed := c.wanted(r); len(missed) > 0 {
				return c.broken(GapFree, "revision %d with %v was left out; %d came", r, missed, d.revision)
			}
		}
		want, known := c.truth.known(d.revision)
		if !known {
			continue // nobody knows what became of that write
		}
		want = c.filter(want)
		if !slices.Equal(d.changes, want) {
			p := True
			if len(d.changes) == 0 {
				p = GapFree
			} else if len(d.changes) != len(want) {
				p = Atomic
			}
			return c.broken(p, "revision %d came as %v and is %v", d.revision, d.changes, want)
		}
	}
	c.pending = nil
	if c.next <= upTo {
		return c.broken(Complete, "it has come to revision %d of %d", c.next-1, upTo)
	}
	return nil
}

func (c *Check) wanted(revision uint64) []Change {
	all, _ := c.truth.known(revision)
	return c.filter(all)
}

func (c *Check) filter(all []Change) []Change {
	var out []Change
	for _, ch := range all {
		if !c.opts.Selects(ch.Key) || c.opts.PutsOnly && ch.Deleted {
			continue
		}
		if c.opts.KeysOnly {
			ch.Value = ""
		}
		out = append(out, ch)
	}
	return out
}
