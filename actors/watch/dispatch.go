package watch

import (
	"fmt"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// scan is one walk over events in order, of a commit or of the change log, that
// offers each to the watchers of one phase.
type scan struct {
	phase phase
	from  protocol.Position // watchers whose cursor is below are left alone
	event shared
	// touched have a fragment under construction; leaving may not be sent what
	// they were offered.
	touched []*watcher
	leaving []*watcher
}

// Committed delivers the events of a batch, in order and without a gap since the
// last one, to whom they are for; revision and compact are the store's after it.
func (h *Hub) Committed(events []store.Event, revision, compact uint64) {
	if !h.known {
		return // the first view will have them
	}
	if len(events) > 0 {
		switch first := events[0].Rec.Mod(); {
		case first <= h.head:
			panic(fmt.Sprintf("watch: events of revision %d after revision %d", first, h.head))
		case first > h.head+1:
			// What lies between came by another way than commits: a snapshot.
			h.moveHead(revision)
		default:
			if h.live.size > 0 {
				h.offerAll(events)
			}
			h.head = revision
		}
	}
	h.compact(compact)
	h.tellReady()
}

func (h *Hub) offerAll(events []store.Event) {
	h.beginScan(live, protocol.Position{})
	for i := range events {
		if i > 0 && events[i].Rec.Mod() != events[i-1].Rec.Mod() {
			h.endRevision()
		}
		h.offer(events[i], &h.live)
	}
	h.endRevision()
	for _, w := range h.scan.leaving {
		h.live.remove(w)
		h.forgetUnready(w)
		h.park(w)
	}
	h.endScan()
}

func (h *Hub) beginScan(p phase, from protocol.Position) {
	h.scan.phase, h.scan.from = p, from
}

func (h *Hub) endScan() {
	clear(h.scan.leaving)
	h.scan.leaving = h.scan.leaving[:0]
	h.scan.event = shared{}
}

func (h *Hub) offer(e store.Event, x *index) {
	h.scan.event.reset(e)
	x.match(e.Rec.Key(), h.offerSet)
}

func (h *Hub) offerToSet(s *set) {
	for _, w := range s.watchers {
		h.offerTo(w)
	}
}

func (h *Hub) offerTo(w *watcher) {
	e := &h.scan.event
	switch {
	case w.phase != h.scan.phase, // it left during this scan
		!w.cursor.Before(e.at),
		w.cursor.Before(h.scan.from),
		!w.wants(e.typ):
		return
	}
	if !w.canTake(h.nowMs) {
		h.flush(w, false)
		w.cursor = e.before()
		// It stays in the index, which must not change under the scan, until the end.
		w.phase = parked
		h.scan.leaving = append(h.scan.leaving, w)
		return
	}
	one := e.as(w.variant)
	if p := w.pending; p != nil && (p.n >= messages.WatchFragmentEventsMax || p.bytes+one.bytes > messages.WatchFragmentBytesMax) {
		h.flush(w, false)
		w.pending = one
	} else if p != nil {
		w.pending = p.with(one)
	} else {
		h.scan.touched = append(h.scan.touched, w)
		w.pending = one
	}
	w.creditEvents--
	w.creditBytes -= e.credit[w.variant]
	w.client.window -= one.bytes
}

// endRevision sends the last fragments of the revision.
func (h *Hub) endRevision() {
	for i, w := range h.scan.touched {
		h.flush(w, true)
		h.scan.touched[i] = nil
	}
	h.scan.touched = h.scan.touched[:0]
}

// flush sends the fragment under construction, if there is one.
func (h *Hub) flush(w *watcher, last bool) {
	f := w.pending
	if f == nil {
		return
	}
	w.pending, w.cursor = nil, f.to(last)
	if last && !w.ready && w.cursor.Revision >= w.readyAt {
		h.setReady(w)
		h.sendBatch(w, messages.NewSharedBatch(f.events(), w.cursor.Proto(), true, true), f.bytes)
		return
	}
	h.sendBatch(w, f.batch(last), f.bytes)
}

// What a batch costs beside its events, to the window, and what each further watch
// that it is for costs.
const (
	batchOverheadBytes = 128
	batchAlsoBytes     = 16
)

// sendBatch sends a batch whose events, bytes of them, the window was charged for. What
// is the same for several watches of a session goes out once.
func (h *Hub) sendBatch(w *watcher, b *messages.SharedBatch, bytes int64) {
	w.told, w.toldMs = w.cursor, h.nowMs
	c := w.client
	if n := len(c.out); n > 0 && c.out[n-1].Batch == b {
		i := &c.out[n-1]
		i.WatchIDs = append(i.WatchIDs, w.id)
		i.Bytes += batchAlsoBytes
		c.window += bytes - batchAlsoBytes
		return
	}
	c.window -= batchOverheadBytes
	if !c.reads && bytes > 0 {
		c.ahead++
	}
	h.send(c, protocol.Item{Batch: b, WatchIDs: []uint64{w.id}, Bytes: bytes + batchOverheadBytes})
}

// setReady notes that the watcher is told that it has caught up.
func (h *Hub) setReady(w *watcher) {
	w.ready = true
	if w.phase == live {
		h.forgetUnready(w)
	}
}

// forgetUnready takes w out of the short list of watchers that wait for the head.
func (h *Hub) forgetUnready(w *watcher) {
	if w.unreadySlot == 0 {
		return
	}
	last := len(h.unready) - 1
	moved := h.unready[last]
	h.unready[w.unreadySlot-1], moved.unreadySlot = moved, w.unreadySlot
	h.unready[last] = nil
	h.unready, w.unreadySlot = h.unready[:last], 0
}

// tellPlace sends how far w has come, and that it is ready if it is.
func (h *Hub) tellPlace(w *watcher) {
	w.cursor = h.place(w)
	whole := w.cursor.Op == messages.PositionOpIndexEnd
	if !w.ready && w.cursor.Complete() >= w.readyAt {
		h.setReady(w)
		h.sendBatch(w, messages.NewSharedBatch(nil, w.cursor.Proto(), whole, true), 0)
		return
	}
	if h.progressed == nil || h.progressedTo != w.cursor {
		h.progressed, h.progressedTo = messages.NewSharedBatch(nil, w.cursor.Proto(), whole, false), w.cursor
	}
	h.sendBatch(w, h.progressed, 0)
}

// tellReady tells the watchers whose place the head has reached without an event
// for them.
func (h *Hub) tellReady() {
	for i := 0; i < len(h.unready); {
		if w := h.unready[i]; h.head >= w.readyAt {
			h.tellPlace(w) // leaves the list
		} else {
			i++
		}
	}
}

// compact ends what the compact revision has passed. A live watcher has everything
// up to the head, so this concerns those that are fed from the change log.
func (h *Hub) compact(c uint64) {
	if c <= h.compacted {
		return
	}
	h.compacted = c
	h.endCompacted()
}

func (h *Hub) endCompacted() {
	for _, list := range [][]*watcher{h.replay.watchers, h.parked} {
		for i := len(list) - 1; i >= 0; i-- { // ending one moves the last into its place
			if w := list[i]; w.cursor.Complete() < h.compacted {
				h.end(w, h.compactedError())
			}
		}
	}
}
