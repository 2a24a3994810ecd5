package watch

import (
	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

// phase says how a watcher gets its events.
type phase uint8

const (
	// live: it has everything up to the hub's head and is offered each commit. A
	// watcher whose place is beyond the head is live too; it skips what it must not
	// see. Running out of credit does not end this phase, an event that finds none
	// does.
	live phase = iota
	// behind: it is fed from the change log.
	behind
	// parked: it is behind and there is an event that it may not be sent. It keeps
	// only its cursor until credit, or room in its session's window, returns.
	parked
)

// watcher is one watch.
type watcher struct {
	client *client
	id     uint64
	span   span
	phase  phase
	// types is a bit for each wanted event type; 0 is all of them.
	types   uint8
	variant variant
	// cursor: everything at or before it was delivered or is not for this watcher.
	// A live watcher may lag behind its true place: see Hub.place.
	cursor       protocol.Position
	creditEvents int64
	creditBytes  int64

	// pending is the fragment under construction. It is nil between calls.
	pending *fragment

	ready      bool
	readyAt    uint64 // the revision to reach to be ready
	progressMs int64
	toldMs     int64 // when it was last sent anything
	told       protocol.Position
	parkedMs   int64 // since when it waits for credit

	home        *set
	homeSpan    span
	homeSlot    int
	allSlot     int // in Hub.all
	feedSlot    int // in the replay's watchers while behind, in Hub.parked while parked
	unreadySlot int // in Hub.unready plus one; 0: not in it
	wheelSlot   int // in its bucket of Hub.wheel
	wheelBucket int
}

// variant is what an event carries for a watcher.
type variant uint8

const (
	withPrev variant = 1 << iota
	keysOnly
	variants = 4
)

func (w *watcher) wants(t messages.EventType) bool {
	return w.types == 0 || w.types&(1<<t) != 0
}

// hasCredit reports whether one more event may be sent. Credit in bytes may be
// overrun by the event that uses it up, credit in events never.
func (w *watcher) hasCredit() bool { return w.creditEvents > 0 && w.creditBytes > 0 }

func (w *watcher) canTake(nowMs int64) bool {
	return w.hasCredit() && w.client.window > 0 && w.client.mayAhead(nowMs)
}

// client is one session's side of the hub.
type client struct {
	session  uint64
	watchers map[uint64]*watcher
	// window is how many bytes may still be on the way to the session. It is
	// overrun by one event at most.
	window int64
	most   int64 // that window may be
	reads  bool  // it has shown that somebody reads
	// Before it has: the batches that it was sent, less AheadPerSecond up to aheadMs, and
	// the bytes that its stream took.
	ahead, aheadMs, taken int64
	out                   []protocol.Item
}

// mayAhead reports whether the session may be sent one more batch, as far as it is known to
// be read.
func (c *client) mayAhead(nowMs int64) bool {
	if c.reads || c.ahead < protocol.AheadMax {
		return true
	}
	seconds := (nowMs - c.aheadMs) / 1_000
	c.aheadMs += seconds * 1_000
	c.ahead = max(0, c.ahead-seconds*protocol.AheadPerSecond)
	return c.ahead < protocol.AheadMax
}
