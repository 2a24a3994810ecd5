package watch

import (
	"cmp"
	"slices"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

func (h *Hub) send(c *client, i protocol.Item) {
	if len(c.out) == 0 {
		h.dirty = append(h.dirty, c)
	}
	c.out = append(c.out, i)
}

func (h *Hub) refuse(c *client, call uint64, err *messages.Error) {
	h.send(c, protocol.Item{Refused: &protocol.Refused{Call: call, Error: err.Detail}})
}

// place is how far w has come: a live watcher has everything up to the head.
func (h *Hub) place(w *watcher) protocol.Position {
	if head := protocol.EndOf(h.head); w.phase == live && w.cursor.Before(head) {
		return head
	}
	return w.cursor
}

// goLive enters a watcher whose cursor has reached the head, in no index so far.
func (h *Hub) goLive(w *watcher) {
	w.phase = live
	h.live.add(w)
	if w.ready {
		return
	}
	if h.head >= w.readyAt {
		h.tellPlace(w)
		return
	}
	h.unready = append(h.unready, w)
	w.unreadySlot = len(h.unready)
}

// park stops feeding a watcher whose cursor stands right before an event that it
// may not be sent. It must be in no index.
func (h *Hub) park(w *watcher) {
	w.phase = parked
	w.parkedMs = h.nowMs
	w.feedSlot = len(h.parked)
	h.parked = append(h.parked, w)
}

// unpark takes w out of the parked ones; its phase is up to the caller.
func (h *Hub) unpark(w *watcher) {
	h.parked = dropFeed(h.parked, w)
}

// dropFeed takes w out of the list in which its feedSlot is its place.
func dropFeed(list []*watcher, w *watcher) []*watcher {
	last := len(list) - 1
	list[last].feedSlot = w.feedSlot
	list[w.feedSlot] = list[last]
	list[last] = nil
	return list[:last]
}

// catchUp begins to feed a parked watcher from the change log again.
func (h *Hub) catchUp(w *watcher) {
	h.unpark(w)
	h.replay.add(w)
}

// end tells the session that the watch is over and forgets it.
func (h *Hub) end(w *watcher, reason *messages.Error) {
	h.send(w.client, protocol.Item{End: &messages.WatchEnd{
		WatchId: w.id, Reason: reason.Detail, Resume: h.place(w).Proto(),
	}})
	h.drop(w)
}

func (h *Hub) drop(w *watcher) {
	switch w.phase {
	case live:
		h.live.remove(w)
		h.forgetUnready(w)
	case behind:
		h.replay.remove(w)
	case parked:
		h.unpark(w)
	}
	h.wheel.remove(w)
	last := len(h.all) - 1
	h.all[last].allSlot = w.allSlot
	h.all[w.allSlot] = h.all[last]
	h.all[last] = nil
	h.all = h.all[:last]
	delete(w.client.watchers, w.id)
}

func (h *Hub) find(session, watchID uint64) *watcher {
	if c := h.clients[session]; c != nil {
		return c.watchers[watchID]
	}
	return nil
}

func (h *Hub) clientOf(session uint64) *client {
	c := h.clients[session]
	if c == nil {
		c = &client{session: session, watchers: make(map[uint64]*watcher), window: protocol.SessionWindowFirst, most: protocol.SessionWindowFirst, aheadMs: h.nowMs}
		h.clients[session] = c
	}
	return c
}

func (h *Hub) compactedError() *messages.Error {
	e := messages.NewError(messages.Code_CODE_COMPACTED, "events up to revision %d are gone", h.compacted)
	e.Detail.CompactRevision, e.Detail.CurrentRevision = h.compacted, h.head
	return e
}

func watchLimit(limit int, whose string) *messages.Error {
	return messages.NewError(messages.Code_CODE_WATCH_LIMIT, "the %s has %d watches", whose, limit).WithLimit(uint64(limit))
}

func sortedIDs(c *client) []uint64 {
	ids := make([]uint64, 0, len(c.watchers))
	for id := range c.watchers {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare[uint64])
	return ids
}

func orDefault(v uint32, def int64) int64 {
	if v == 0 {
		return def
	}
	return int64(v)
}
