package watch

import "github.com/concord-kv/concord/messages"

// progressIdleFactor: a watch that has come no further is told so this many times
// less often than one that has.
const progressIdleFactor = 10

// tickMaxMs is the most that one tick counts for. A node that was suspended must
// not take its own silence for its clients'.
const tickMaxMs = 1_000

// Tick says what time it is: it tells idle watches how far they have come, and
// ends those that nobody reads, and all of them on a node that lost its cluster.
func (h *Hub) Tick(nowMs int64) {
	if !h.ticked {
		h.ticked = true
		h.startClock(nowMs)
		return
	}
	h.nowMs += min(max(nowMs-h.tickedMs, 0), tickMaxMs)
	h.tickedMs = max(h.tickedMs, nowMs)
	if h.leaderlessMs >= 0 && !h.cutOff && h.nowMs-h.leaderlessMs >= h.limits.LeaderlessMs {
		h.cutOff = true
		h.Stop(h.noQuorum())
		return
	}
	for i := len(h.parked) - 1; i >= 0; i-- { // ending one moves the last into its place
		if w := h.parked[i]; h.nowMs-w.parkedMs >= h.limits.SlowConsumerMs {
			h.end(w, messages.NewError(messages.Code_CODE_SLOW_CONSUMER,
				"behind, and no credit for %d ms", h.limits.SlowConsumerMs).WithLimit(uint64(h.limits.SlowConsumerMs)))
		}
	}
	h.pace()
	h.wheel.turn(h.nowMs, h.lookAt)
}

// lookAt tells a watch whose time has come how far it is, and returns when to look at it
// next.
func (h *Hub) lookAt(w *watcher) int64 {
	due := w.toldMs + w.progressMs
	if due > h.nowMs {
		return due // it was sent something meanwhile
	}
	if w.phase != parked {
		h.progress(w)
	}
	return h.nowMs + w.progressMs
}

func (h *Hub) noQuorum() *messages.Error {
	return messages.NewError(messages.Code_CODE_NO_QUORUM,
		"the node has known no leader for %d ms: watch at another one", h.limits.LeaderlessMs)
}

// startClock sets every time that was noted before time was known.
func (h *Hub) startClock(nowMs int64) {
	h.nowMs, h.tickedMs, h.pacedMs = nowMs, nowMs, nowMs
	if h.leaderlessMs >= 0 {
		h.leaderlessMs = nowMs
	}
	h.wheel = wheel{}
	for _, c := range h.clients {
		c.aheadMs = nowMs
	}
	for _, w := range h.all {
		w.toldMs, w.parkedMs = nowMs, nowMs
		h.wheel.add(w, nowMs+w.progressMs)
	}
}

// progress tells a watch how far it has come, unless that is nothing new or inside a
// revision, or it waits for a revision of the future, or its session does not read.
func (h *Hub) progress(w *watcher) {
	place := h.place(w)
	if place.Complete() > h.head || place.Op != messages.PositionOpIndexEnd || w.client.window <= 0 {
		return
	}
	if w.told.Before(place) || h.nowMs-w.toldMs >= progressIdleFactor*w.progressMs {
		h.tellPlace(w)
	}
}

// TellProgress tells a live watch how far it has come, whether or not that is news. One
// that is behind tells when it has caught up.
func (h *Hub) TellProgress(session, watchID uint64) {
	c := h.clients[session]
	if c == nil {
		return
	}
	if w := c.watchers[watchID]; w != nil && w.phase == live && w.client.window > 0 {
		h.tellPlace(w)
	}
}

// LeaderChanged tells who leads, as far as the node knows; 0 is nobody.
func (h *Hub) LeaderChanged(leaderID uint64) {
	switch {
	case leaderID != 0:
		h.leaderlessMs, h.cutOff = -1, false
	case h.leaderlessMs < 0:
		h.leaderlessMs = h.nowMs
	}
}
