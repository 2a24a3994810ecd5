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
	if h.leaderlessMs >= 0 && h.nowMs-h.leaderlessMs >= h.limits.LeaderlessMs {
		h.leaderlessMs = h.nowMs
		h.Stop(messages.NewError(messages.Code_CODE_NO_LEADER, "the node has known no leader for %d ms: watch at another one", h.limits.LeaderlessMs))
		return
	}
	for i := len(h.all) - 1; i >= 0; i-- {
		w := h.all[i]
		switch {
		case w.phase == parked:
			if h.nowMs-w.parkedMs >= h.limits.SlowConsumerMs {
				h.end(w, messages.NewError(messages.Code_CODE_SLOW_CONSUMER,
					"behind, and no credit for %d ms", h.limits.SlowConsumerMs).WithLimit(uint64(h.limits.SlowConsumerMs)))
			}
		case h.nowMs-w.toldMs >= w.progressMs:
			h.progress(w)
		}
	}
}

// startClock sets every time that was noted before time was known.
func (h *Hub) startClock(nowMs int64) {
	h.nowMs, h.tickedMs = nowMs, nowMs
	if h.leaderlessMs >= 0 {
		h.leaderlessMs = nowMs
	}
	for _, w := range h.all {
		w.toldMs, w.parkedMs = nowMs, nowMs
	}
}

// progress tells a watch how far it has come, unless that is nothing new, or it
// waits for a revision of the future, or its session does not read.
func (h *Hub) progress(w *watcher) {
	place := h.place(w)
	if place.Complete() > h.head || w.client.window <= 0 {
		return
	}
	if w.told.Before(place) || h.nowMs-w.toldMs >= progressIdleFactor*w.progressMs {
		h.tellPlace(w)
	}
}

// LeaderChanged tells who leads, as far as the node knows; 0 is nobody.
func (h *Hub) LeaderChanged(leaderID uint64) {
	switch {
	case leaderID != 0:
		h.leaderlessMs = -1
	case h.leaderlessMs < 0:
		h.leaderlessMs = h.nowMs
	}
}
