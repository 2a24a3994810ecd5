package watch

import (
	"slices"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// ChangeLog is a frozen view of the store as the hub reads it.
type ChangeLog interface {
	Revision() uint64
	CompactRevision() uint64
	// Changes calls fn for every event after the position, in order, until fn
	// returns false. The position is at or above the compact revision.
	Changes(after *messages.Position, fn func(store.Event) bool) error
}

// Hub decides who is sent what. It is plain Go, owned by one goroutine: messages
// go in, TakeOutput takes out what they caused. It has no clock: time is what Tick
// last said.
//
// The one rule behind "no gap, no repeat": a watcher is offered events in order,
// from wherever they come, and takes those after its cursor. It is moved to the
// live set only when its cursor has reached the head, and leaves it at the event
// that it could not take, its cursor right before that event.
type Hub struct {
	limits Limits

	// known is false until the first view: the hub does not know the head.
	known     bool
	head      uint64
	compacted uint64
	waiting   []protocol.StartWatch // came before the hub knew

	clients map[uint64]*client
	all     []*watcher
	live    index
	replay  replay
	parked  []*watcher
	wheel   wheel
	// unready are live watchers that wait for the head to reach their place.
	unready []*watcher

	ticked       bool
	tickedMs     int64 // what the last Tick said
	nowMs        int64 // the time that counts; see tickMaxMs
	leaderlessMs int64 // since when there is no leader; -1 while there is one
	pacedMs      int64 // when those that were not read had more
	cutOff       bool  // there has been none for so long that nobody may watch here
	lagMax       uint64

	// progressed is what watches are told that have come to progressedTo.
	progressed   *messages.SharedBatch
	progressedTo protocol.Position

	scan     scan
	offerSet func(*set) // offerToSet, bound once
	dirty    []*client
}

// Output is what one session is sent.
type Output struct {
	Session uint64
	Items   []protocol.Item
}

// NewHub returns a hub without watches. It answers no StartWatch before the first
// ViewArrived: NeedsView asks for it.
func NewHub(limits Limits) *Hub {
	h := &Hub{limits: limits.withDefaults(), clients: make(map[uint64]*client), leaderlessMs: -1}
	h.offerSet = h.offerToSet
	h.replay.needView = true
	return h
}

// Watchers returns how many watches live.
func (h *Hub) Watchers() int { return len(h.all) }

// Start begins a watch, or refuses it.
func (h *Hub) Start(m protocol.StartWatch) {
	c := h.clientOf(m.Session)
	if !h.known {
		if len(h.waiting) >= h.limits.WatchersMax {
			h.refuse(c, m.Call, watchLimit(h.limits.WatchersMax, "node"))
			return
		}
		h.waiting = append(h.waiting, m)
		return
	}
	c.reads = c.reads || m.Reads
	r := m.Request
	switch {
	case c.watchers[r.WatchId] != nil:
		h.refuse(c, m.Call, messages.NewError(messages.Code_CODE_WATCH_EXISTS, "the connection has a watch %d", r.WatchId).WithField("watch_id"))
		return
	case len(c.watchers) >= h.limits.WatchersPerSessionMax:
		h.refuse(c, m.Call, watchLimit(h.limits.WatchersPerSessionMax, "connection"))
		return
	case len(h.all) >= h.limits.WatchersMax:
		h.refuse(c, m.Call, watchLimit(h.limits.WatchersMax, "node"))
		return
	case h.cutOff:
		h.refuse(c, m.Call, h.noQuorum())
		return
	case m.After.Complete() < h.compacted:
		h.refuse(c, m.Call, h.compactedError())
		return
	}
	w := &watcher{
		client: c, id: r.WatchId, span: spanOf(r.Selector),
		cursor:       m.After,
		told:         m.After,
		creditEvents: orDefault(r.CreditEvents, messages.WatchCreditEventsDefault),
		creditBytes:  orDefault(r.CreditBytes, messages.WatchCreditBytesDefault),
		progressMs:   orDefault(r.ProgressMs, messages.WatchProgressMsDefault),
		readyAt:      max(h.head, m.After.Complete()),
		toldMs:       h.nowMs,
	}
	for _, t := range r.Types {
		w.types |= 1 << t
	}
	if r.PrevKv {
		w.variant |= withPrev
	}
	if r.KeysOnly {
		w.variant |= keysOnly
	}
	c.watchers[w.id] = w
	w.allSlot = len(h.all)
	h.all = append(h.all, w)
	h.wheel.add(w, h.nowMs+w.progressMs)
	h.send(c, protocol.Item{Started: &protocol.Started{
		Call: m.Call, WatchID: w.id, From: w.cursor.First(), Current: h.head,
	}})
	if w.cursor.Before(protocol.EndOf(h.head)) {
		h.replay.add(w)
	} else {
		h.goLive(w)
	}
}

// Cancel ends a watch with code cancelled. A watch that has ended is not answered
// again: its client gets exactly one end.
func (h *Hub) Cancel(session, watchID uint64) {
	if w := h.find(session, watchID); w != nil {
		h.end(w, messages.NewError(messages.Code_CODE_CANCELLED, "cancelled by the client"))
	}
}

// Grant adds credit to a watch.
func (h *Hub) Grant(session, watchID uint64, events, bytes uint32) {
	w := h.find(session, watchID)
	if w == nil {
		return
	}
	w.creditEvents = min(w.creditEvents+int64(events), messages.WatchCreditEventsMax)
	w.creditBytes = min(w.creditBytes+int64(bytes), messages.WatchCreditBytesMax)
	if c := w.client; !c.reads && c.ahead > 0 && events > 0 {
		h.showsReads(c)
	}
	if w.phase != parked {
		return
	}
	w.parkedMs = h.nowMs
	if w.canTake(h.nowMs) {
		h.catchUp(w)
	}
}

// Drained returns bytes to a session's window.
func (h *Hub) Drained(session uint64, bytes int64) {
	c := h.clients[session]
	if c == nil {
		return
	}
	more := int64(0)
	if c.reads {
		more = min(bytes, protocol.SessionWindowBytes-c.most)
	} else if c.taken += bytes; c.taken >= protocol.AheadBytesMax {
		h.showsReads(c)
	}
	before := c.window
	c.most += more
	c.window = min(c.window+bytes+more, c.most)
	if before >= c.most/2 {
		return // nobody waits for it
	}
	// Half a window first: waking at every byte would read the change log for a
	// handful of events at a time.
	wake := c.window >= c.most/2
	for _, id := range sortedIDs(c) {
		w := c.watchers[id]
		if w.phase != parked || !w.hasCredit() {
			continue
		}
		w.parkedMs = h.nowMs // the client reads
		if wake {
			h.catchUp(w)
		}
	}
}

// showsReads notes that somebody reads what a session is sent.
func (h *Hub) showsReads(c *client) {
	waited := c.ahead >= protocol.AheadMax
	c.reads, c.ahead = true, 0
	if waited {
		h.wakeParked(c)
	}
}

// wakeParked goes on with the watches of a session that waited for what it lacks no more.
func (h *Hub) wakeParked(c *client) {
	for _, id := range sortedIDs(c) {
		if w := c.watchers[id]; w.phase == parked && w.canTake(h.nowMs) {
			w.parkedMs = h.nowMs
			h.catchUp(w)
		}
	}
}

// pace goes on, once a second, with the watches of sessions that have not shown that they
// are read, and may be sent a little more meanwhile.
func (h *Hub) pace() {
	if h.nowMs-h.pacedMs < 1_000 {
		return
	}
	h.pacedMs = h.nowMs
	var waited []*client
	for _, w := range h.parked {
		if c := w.client; !c.reads && w.canTake(h.nowMs) {
			waited = append(waited, c)
		}
	}
	for _, c := range waited {
		h.wakeParked(c)
	}
}

// CloseSession forgets a session and its watches, without a word to it.
func (h *Hub) CloseSession(session uint64) {
	h.waiting = slices.DeleteFunc(h.waiting, func(m protocol.StartWatch) bool { return m.Session == session })
	c := h.clients[session]
	if c == nil {
		return
	}
	for _, id := range sortedIDs(c) {
		h.drop(c.watchers[id])
	}
	c.out = nil
	delete(h.clients, session)
}

// Stop ends every watch with this reason.
func (h *Hub) Stop(reason *messages.Error) {
	for len(h.all) > 0 {
		h.end(h.all[len(h.all)-1], reason)
	}
}

// LowWater returns the highest revision that every watch has completely delivered,
// those left out that are further behind than ConsumerLag allows: one of them must not
// cost the others their hold on history. active is false when no watch counts. A watch
// that waits for the future counts as being at the head.
func (h *Hub) LowWater() (after uint64, active bool) {
	after, active = h.head, len(h.all) > len(h.parked)+len(h.replay.watchers)
	for _, list := range [2][]*watcher{h.replay.watchers, h.parked} {
		for _, w := range list {
			at := w.cursor.Complete()
			if h.lagMax != 0 && at < h.head && h.head-at > h.lagMax {
				continue
			}
			after, active = min(after, at), true
		}
	}
	return after, active
}

// ConsumerLag sets how far behind a watch may be and still count; 0: however far.
func (h *Hub) ConsumerLag(revisions uint64) { h.lagMax = revisions }

// Backlog tells how many watches are fed from the change log, how many wait for credit
// while there are events for them, and how many revisions the last of them is behind.
func (h *Hub) Backlog() (behind, stalled int, lag uint64) {
	for _, list := range [2][]*watcher{h.replay.watchers, h.parked} {
		for _, w := range list {
			if at := w.cursor.Complete(); at < h.head {
				lag = max(lag, h.head-at)
			}
		}
	}
	return len(h.replay.watchers), len(h.parked), lag
}

// TakeOutput returns what has come up for the sessions since it was last called,
// in the order in which they first had something.
func (h *Hub) TakeOutput() []Output {
	if len(h.dirty) == 0 {
		return nil
	}
	out := make([]Output, 0, len(h.dirty))
	for _, c := range h.dirty {
		if len(c.out) > 0 {
			out = append(out, Output{c.session, c.out})
			c.out = nil
		}
	}
	h.dirty = h.dirty[:0]
	return out
}
