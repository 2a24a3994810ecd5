package pipeline

import (
	"github.com/concord-kv/concord/messages"
)

// Batch is what a watch delivers at once: the events of one revision, in order, or no
// event and how far the watch has come.
type Batch struct {
	Events []*messages.Event
	// To is where to resume after this batch.
	To *messages.Position
	// Last says that Events ends its revision. False only for a revision larger than
	// JoinBytesMax, which arrives in parts.
	Last bool
	// Ready says that the watch has caught up with what was current when it began.
	Ready bool

	events, bytes int // credit that it used and that was not returned yet
}

// JoinBytesMax bounds what is collected of one revision before it is delivered in
// parts.
const JoinBytesMax = 64 << 20

// Watch is one watch. Its fields belong to the pipeline; the owner reads Started and
// calls Take under the pipeline's lock, and waits on Changed.
type Watch struct {
	request *messages.WatchRequest // as the caller asked
	id      uint64                 // new for each request, so that late batches of an older one are known

	// Started is set once the node has said where the watch begins, for good.
	Started *messages.WatchStarted
	// Changed receives a value when Take, Started or End may have changed; for batches, when
	// the owner puts one into what Woken returned.
	Changed chan struct{}

	stage    stage
	after    *messages.Position // resume here; nil before the first batch
	progress bool               // deliver batches without events
	out      batches
	joined   Batch // fragments of a revision that is not complete
	end      error

	creditEvents, creditBytes int // what the watch was given at first
	owedEvents, owedBytes     int // used, to be returned
	heldEvents, heldBytes     int // used by batches that wait for the caller

	slot   int  // in watches.order
	listed bool // in watches.owing
	woken  bool // its channel is in watches.woken, or it in feed.ready
	feed   *Feed
	handle func(Batch, error)
}

type stage uint8

const (
	stageWanted    stage = iota // to be requested
	stageRequested              // in flight
	stageLive
	stageParked // ended by the node for slowness; wanted again when the caller has caught up
	stageEnded
)

// watches are all of a client.
type watches struct {
	byID    map[uint64]*Watch
	order   []*Watch // all of them
	wanted  int      // how many are to be requested
	owing   []*Watch // that have credit to return
	nextID  uint64
	cancels []uint64
	pause   pause
	shown   bool            // the node has seen on this connection that what it sends is read
	woken   []chan struct{} // of those that Receive had something for
	rouse   []*Watch        // whose channels they are
}

// OpenWatch starts a watch. It lives, over connections, until CloseWatch, an end that
// resuming cannot mend, or Close.
func (p *Pipeline) OpenWatch(r *messages.WatchRequest, progress bool) (*Watch, error) {
	if p.closed != nil {
		return nil, p.closedError()
	}
	ws := &p.watches
	w := &Watch{
		request: r, progress: progress, Changed: make(chan struct{}, 1),
		creditEvents: orDefault(int(r.CreditEvents), messages.WatchCreditEventsDefault),
		creditBytes:  orDefault(int(r.CreditBytes), messages.WatchCreditBytesDefault),
	}
	w.slot = len(ws.order)
	ws.order = append(ws.order, w)
	ws.wanted++
	return w, nil
}

// CloseWatch ends a watch and tells the node. It may be repeated.
func (p *Pipeline) CloseWatch(w *Watch, reason error) {
	if w.stage == stageEnded {
		return
	}
	if p.link.up && (w.stage == stageLive || w.stage == stageRequested) {
		p.watches.cancels = append(p.watches.cancels, w.id)
	}
	p.watches.finish(w, reason)
}

// Take returns the next batch; false when there is none now. After the last one it
// returns the reason for which the watch ended.
func (p *Pipeline) Take(w *Watch) (Batch, bool, error) {
	b, ok := w.out.pop()
	if !ok {
		return Batch{}, false, w.end
	}
	w.heldEvents -= b.events
	w.heldBytes -= b.bytes
	p.watches.owe(w, b.events, b.bytes)
	if w.stage == stageParked && w.out.len() == 0 {
		p.watches.set(w, stageWanted)
	}
	return b, true, nil
}

// Resume returns where a watch has come to: everything up to it was delivered, or
// waits in it. It is nil before the first batch.
func (w *Watch) Resume() *messages.Position { return w.after }

// End returns why the watch ended, nil while it lives.
func (w *Watch) End() error { return w.end }

// Dry tells whether Take has nothing before Changed receives a value.
func (w *Watch) Dry() bool { return w.out.len() == 0 && w.end == nil }

// WatchesTalk tells whether Take or CloseWatch may have left something to send.
func (p *Pipeline) WatchesTalk() bool { return p.watches.talks() || p.watches.pending() }

// Woken returns the channels of those for whom Receive had something since it was last
// called. The owner calls it before it gives the pipeline's lock away, and puts a value into
// each that has none afterwards: who wakes wants the lock. The slice is good until the next
// Receive.
func (p *Pipeline) Woken() []chan struct{} {
	ws := &p.watches
	for i, w := range ws.rouse {
		w.woken = false
		ws.rouse[i] = nil
	}
	woken := ws.woken
	ws.rouse, ws.woken = ws.rouse[:0], ws.woken[:0]
	return woken
}

// Signal puts a value into a channel of Woken, if none is there.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (ws *watches) finish(w *Watch, reason error) {
	if w.stage == stageEnded {
		return
	}
	ws.set(w, stageEnded)
	w.end, w.joined = reason, Batch{}
	delete(ws.byID, w.id)
	last := len(ws.order) - 1
	ws.order[w.slot], ws.order[last].slot = ws.order[last], w.slot
	ws.order[last] = nil
	ws.order = ws.order[:last]
	if w.feed != nil {
		w.feed.add(w)
		Signal(w.feed.Changed)
		return
	}
	Signal(w.Changed)
}

func (ws *watches) closeAll(reason error) {
	for len(ws.order) > 0 {
		ws.finish(ws.order[0], reason)
	}
}

// NotStarted is the error of a watch that did not begin in time.
func (p *Pipeline) NotStarted() error {
	if !p.link.up {
		e := messages.NewError(messages.Code_CODE_UNAVAILABLE, "no node answers")
		e.Err = p.link.reason
		return e
	}
	return messages.NewError(messages.Code_CODE_TIMEOUT, "the watch did not begin in time")
}
