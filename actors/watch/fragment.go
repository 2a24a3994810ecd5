package watch

import (
	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

// fragment is events of one revision on their way to watchers: an event and the
// fragment before it. Watchers that are offered the same events walk the same
// fragments, and the batch at the end is made once for all of them, however many there
// are and whatever connections they are on.
type fragment struct {
	prev  *fragment
	event *messages.Event
	at    protocol.Position
	n     int   // events in it
	bytes int64 // encoded, at most
	// next is the last fragment that was made from this one. A second look finds it:
	// events are offered one after the other, each to all watchers.
	next *fragment
	// The batches of it, once somebody was sent one.
	part, whole *messages.SharedBatch
}

// with returns the fragment with one more event.
func (f *fragment) with(e *fragment) *fragment {
	if f.next == nil || f.next.event != e.event {
		f.next = &fragment{prev: f, event: e.event, at: e.at, n: f.n + 1, bytes: f.bytes + e.bytes}
	}
	return f.next
}

func (f *fragment) events() []*messages.Event {
	events := make([]*messages.Event, f.n)
	for g := f; g != nil; g = g.prev {
		events[g.n-1] = g.event
	}
	return events
}

// to is how far the fragment brings a watcher, if it is the revision's last or not.
func (f *fragment) to(last bool) protocol.Position {
	if last {
		return protocol.EndOf(f.at.Revision)
	}
	return f.at
}

func (f *fragment) batch(last bool) *messages.SharedBatch {
	at := &f.part
	if last {
		at = &f.whole
	}
	if *at == nil {
		*at = messages.NewSharedBatch(f.events(), f.to(last).Proto(), last, false)
	}
	return *at
}
