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
	to    *messages.Position // shared by all batches that end the revision
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
			h.endRevision(events[i-1].Rec.Mod())
		}
		h.offer(events[i], &h.live)
	}
	h.endRevision(events[len(events)-1].Rec.Mod())
	for _, w := range h.scan.leaving {
		h.live.remove(w)
		if !w.ready {
			h.forgetUnready(w)
		}
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
	if !w.canTake() {
		h.flush(w, false)
		w.cursor = e.before()
		// It stays in the index, which must not change under the scan, until the end.
		w.phase = parked
		h.scan.leaving = append(h.scan.leaving, w)
		return
	}
	one, bytes := e.as(w.variant), e.bytes[w.variant]
	if len(w.pending) >= messages.WatchFragmentEventsMax ||
		len(w.pending) > 0 && w.pendingBytes+bytes > messages.WatchFragmentBytesMax {
		h.flush(w, false)
	}
	if len(w.pending) == 0 {
		h.scan.touched = append(h.scan.touched, w)
		w.pending = one
	} else {
		w.pending = append(w.pending, one[0])
	}
	w.pendingBytes += bytes
	w.pendingTo = e.at
	w.creditEvents--
	w.creditBytes -= e.credit[w.variant]
	w.client.window -= bytes
}

// endRevision sends the last fragments of revision r.
func (h *Hub) endRevision(r uint64) {
	if len(h.scan.touched) == 0 {
		return
	}
	h.scan.to = protocol.EndOf(r).Proto()
	for i, w := range h.scan.touched {
		h.flush(w, true)
		h.scan.touched[i] = nil
	}
	h.scan.touched = h.scan.touched[:0]
}

// batchOverheadBytes is what a batch costs beside its events, to the window.
const batchOverheadBytes = 128

// flush sends the fragment under construction, if there is one.
func (h *Hub) flush(w *watcher, last bool) {
	if len(w.pending) == 0 {
		return
	}
	b := &messages.WatchBatch{WatchId: w.id, Events: w.pending, Last: last}
	if last {
		w.cursor = protocol.EndOf(w.pendingTo.Revision)
		b.To = h.scan.to
		if !w.ready && w.cursor.Revision >= w.readyAt {
			h.setReady(w)
			b.Ready = true
		}
	} else {
		w.cursor = w.pendingTo
		b.To = w.cursor.Proto()
	}
	h.sendBatch(w, b, w.pendingBytes)
	w.pending, w.pendingBytes = nil, 0
}

func (h *Hub) sendBatch(w *watcher, b *messages.WatchBatch, bytes int64) {
	w.told, w.toldMs = w.cursor, h.nowMs
	w.client.window -= batchOverheadBytes
	h.send(w.client, protocol.Item{Batch: b, Bytes: bytes + batchOverheadBytes})
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
	for i, u := range h.unready {
		if u == w {
			h.unready = append(h.unready[:i], h.unready[i+1:]...)
			return
		}
	}
}

// tellPlace sends how far w has come, and that it is ready if it is.
func (h *Hub) tellPlace(w *watcher) {
	w.cursor = h.place(w)
	b := &messages.WatchBatch{WatchId: w.id, To: w.cursor.Proto(), Last: w.cursor.Op == messages.PositionOpIndexEnd}
	if !w.ready && w.cursor.Complete() >= w.readyAt {
		h.setReady(w)
		b.Ready = true
	}
	h.sendBatch(w, b, 0)
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
	if h.replay.idle() && !h.anyParked() {
		return
	}
	for i := len(h.all) - 1; i >= 0; i-- {
		if w := h.all[i]; w.phase != live && w.cursor.Complete() < h.compacted {
			h.end(w, h.compactedError())
		}
	}
}

func (h *Hub) anyParked() bool {
	return len(h.all) > h.live.size+len(h.replay.watchers)
}
