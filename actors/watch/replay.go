package watch

import (
	"fmt"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/state/store"
)

// nearRevisions: a watcher this close to the head is not made to wait for those
// that replay a long history.
const nearRevisions = 1_000

// replayBytesMax ends a step of a replay, like Limits.ReplayEventsMax.
const replayBytesMax = 4 << 20

// replay feeds the watchers that are behind from a view's change log.
//
// One walk over the log serves all whose cursor it passes, like a lift that stops
// where somebody waits: a step goes on where the last one ended, to the next
// watcher above; at the top it starts again at the lowest. Every other step serves
// those near the head. So the cost is one read of the log for any number of
// watchers, and nobody waits longer than one way up.
type replay struct {
	index    index
	watchers []*watcher
	log      ChangeLog
	needView bool
	lift     protocol.Position
	near     bool // the next step is for those near the head
}

func (r *replay) idle() bool { return len(r.watchers) == 0 }

func (r *replay) add(w *watcher) {
	w.phase = behind
	w.feedSlot = len(r.watchers)
	r.watchers = append(r.watchers, w)
	r.index.add(w)
	r.needView = r.needView || r.log == nil
}

func (r *replay) remove(w *watcher) {
	r.index.remove(w)
	r.watchers = dropFeed(r.watchers, w)
	if len(r.watchers) == 0 {
		// A view that is held makes the next writes copy: let go of it.
		r.log, r.needView = nil, false
	}
}

// drop lets go of a view that has nothing more for anybody.
func (r *replay) drop() {
	r.log, r.needView = nil, len(r.watchers) > 0
}

// NeedsView reports whether the hub waits for ViewArrived with a view not older
// than the last commit.
func (h *Hub) NeedsView() bool { return h.replay.needView }

// ViewArrived brings the view that NeedsView asked for. Replay feeds from it.
func (h *Hub) ViewArrived(v ChangeLog) {
	h.replay.needView = false
	if !h.known {
		h.known = true
		h.head, h.compacted = v.Revision(), v.CompactRevision()
		waiting := h.waiting
		h.waiting = nil
		for _, m := range waiting {
			h.Start(m)
		}
	}
	h.compact(v.CompactRevision())
	if !h.replay.idle() {
		h.replay.needView = false
		h.replay.log = v
	}
}

// Installed tells that the store was replaced by a snapshot's, of which v is a
// view. Watches go on from the change log in it, or end with compacted.
func (h *Hub) Installed(v ChangeLog) {
	if !h.known {
		h.ViewArrived(v)
		return
	}
	h.replay.drop()
	h.moveHead(v.Revision())
	h.compacted = v.CompactRevision()
	h.endCompacted()
	if !h.replay.idle() {
		h.replay.log, h.replay.needView = v, false
	}
	h.tellReady()
}

// moveHead sets the head although the events on the way to it were not seen: live
// watchers fall behind at the old one.
func (h *Hub) moveHead(revision uint64) {
	for _, w := range h.all {
		if w.phase == live {
			w.cursor = h.place(w)
		}
	}
	h.head = revision
	for _, w := range h.all {
		if w.phase == live && w.cursor.Before(protocol.EndOf(h.head)) {
			h.live.remove(w)
			h.forgetUnready(w)
			h.replay.add(w)
		}
	}
}

// HasReplay reports whether Replay has something to do.
func (h *Hub) HasReplay() bool { return h.replay.log != nil }

// Replay does one step, bounded by Limits.ReplayEventsMax.
func (h *Hub) Replay() {
	r := &h.replay
	if r.log == nil {
		return
	}
	top := protocol.EndOf(r.log.Revision())
	start, near, ok := r.next(top)
	if !ok {
		r.drop() // everybody is past it
		return
	}
	stop := h.walk(start, top)
	if !near {
		r.lift = stop
	}
	for _, w := range h.scan.leaving {
		r.remove(w)
		h.park(w)
	}
	h.endScan()
	head := protocol.EndOf(h.head)
	for i := len(r.watchers) - 1; i >= 0; i-- {
		w := r.watchers[i]
		if w.cursor.Before(start) || stop.Before(w.cursor) {
			continue
		}
		w.cursor = stop
		if !w.cursor.Before(head) {
			r.remove(w)
			h.goLive(w)
		} else if !w.ready && w.cursor.Complete() >= w.readyAt {
			h.tellPlace(w)
		}
	}
}

// next picks where the next step starts: a watcher's cursor below top.
func (r *replay) next(top protocol.Position) (start protocol.Position, near, ok bool) {
	var lowest, above, close protocol.Position
	var haveLowest, haveAbove, haveClose bool
	for _, w := range r.watchers {
		if !w.cursor.Before(top) {
			continue
		}
		if !haveLowest || w.cursor.Before(lowest) {
			lowest, haveLowest = w.cursor, true
		}
		if !w.cursor.Before(r.lift) && (!haveAbove || w.cursor.Before(above)) {
			above, haveAbove = w.cursor, true
		}
		if w.cursor.Revision+nearRevisions >= top.Revision && (!haveClose || w.cursor.Before(close)) {
			close, haveClose = w.cursor, true
		}
	}
	if !haveLowest {
		return start, false, false
	}
	r.near = !r.near
	switch {
	case r.near && haveClose:
		return close, true, true
	case haveAbove:
		return above, false, true
	}
	return lowest, false, true
}

// walk offers the events after start and returns how far it came: the end of a
// revision, at most top.
func (h *Hub) walk(start, top protocol.Position) protocol.Position {
	h.beginScan(behind, start)
	stop := top
	var revision uint64 // of the last event
	events, scannedBytes := 0, int64(0)
	err := h.replay.log.Changes(start.Proto(), func(e store.Event) bool {
		if mod := e.Rec.Mod(); mod != revision {
			if revision != 0 {
				h.endRevision()
				if events >= h.limits.ReplayEventsMax || scannedBytes >= replayBytesMax {
					stop = protocol.EndOf(revision)
					return false
				}
			}
			revision = mod
		}
		events++
		h.offer(e, &h.replay.index)
		scannedBytes += int64(e.Rec.Len())
		return true
	})
	if err != nil {
		// Cursors below the view's compact revision were ended when it came.
		panic(fmt.Sprintf("watch: changes after %v: %v", start, err))
	}
	if revision != 0 {
		h.endRevision()
	}
	return stop
}
