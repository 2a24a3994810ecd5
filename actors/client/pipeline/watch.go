package pipeline

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

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
	// Changed receives a value when Take, Started or End may have changed.
	Changed chan struct{}

	stage    stage
	after    *messages.Position // resume here; nil before the first batch
	progress bool               // deliver batches without events
	out      []Batch
	joined   Batch // fragments of a revision that is not complete
	end      error

	creditEvents, creditBytes int // what the watch was given at first
	owedEvents, owedBytes     int // used, to be returned
	heldEvents, heldBytes     int // used by batches that wait for the caller
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
	order   []*Watch // as they were opened
	nextID  uint64
	cancels []uint64
	pause   pause
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
	ws.order = append(ws.order, w)
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
	if len(w.out) == 0 {
		return Batch{}, false, w.end
	}
	b := w.out[0]
	w.out[0] = Batch{}
	w.out = w.out[1:]
	w.heldEvents -= b.events
	w.heldBytes -= b.bytes
	w.owedEvents += b.events
	w.owedBytes += b.bytes
	if w.stage == stageParked && len(w.out) == 0 {
		w.stage = stageWanted
	}
	return b, true, nil
}

// Resume returns where a watch has come to: everything up to it was delivered, or
// waits in it. It is nil before the first batch.
func (w *Watch) Resume() *messages.Position { return w.after }

// End returns why the watch ended, nil while it lives.
func (w *Watch) End() error { return w.end }

func (w *Watch) changed() {
	select {
	case w.Changed <- struct{}{}:
	default:
	}
}

func (ws *watches) finish(w *Watch, reason error) {
	if w.stage == stageEnded {
		return
	}
	w.stage, w.end, w.joined = stageEnded, reason, Batch{}
	delete(ws.byID, w.id)
	for i, o := range ws.order {
		if o == w {
			ws.order = append(ws.order[:i], ws.order[i+1:]...)
			break
		}
	}
	w.changed()
}

func (ws *watches) closeAll(reason error) {
	for len(ws.order) > 0 {
		ws.finish(ws.order[0], reason)
	}
}

func (ws *watches) disconnect() {
	ws.cancels = nil
	for _, w := range ws.order {
		if w.stage == stageRequested || w.stage == stageLive {
			w.stage = stageWanted
		}
	}
}

func (ws *watches) reconnect() { ws.pause.clear() }

func (ws *watches) pending() bool {
	for _, w := range ws.order {
		if w.stage == stageWanted {
			return true
		}
	}
	return false
}

// control returns one message that ends a watch or gives it credit.
func (ws *watches) control() *messages.ClientMessage {
	if n := len(ws.cancels); n > 0 {
		id := ws.cancels[n-1]
		ws.cancels = ws.cancels[:n-1]
		return &messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: id}}}
	}
	for _, w := range ws.order {
		if !w.owes() {
			continue
		}
		credit := &messages.WatchCredit{WatchId: w.id, Events: uint32(w.owedEvents), Bytes: uint32(w.owedBytes)}
		w.owedEvents, w.owedBytes = 0, 0
		return &messages.ClientMessage{Message: &messages.ClientMessage_WatchCredit{WatchCredit: credit}}
	}
	return nil
}

// owes tells whether enough credit was used to be worth a message.
func (w *Watch) owes() bool {
	return w.stage == stageLive && (w.owedEvents*2 >= w.creditEvents || w.owedBytes*2 >= w.creditBytes)
}

// talks tells whether control has a message.
func (ws *watches) talks() bool {
	return len(ws.cancels) > 0 || slices.ContainsFunc(ws.order, (*Watch).owes)
}

// fill puts the requests of watches that are not on the connection into the frame.
func (ws *watches) fill(p *Pipeline, f *frame, now time.Duration) {
	if now < ws.pause.until {
		return
	}
	for _, w := range ws.order {
		if w.stage != stageWanted {
			continue
		}
		r := w.resumption()
		op := &messages.Operation{Operation: &messages.Operation_Watch{Watch: r}}
		c := NewCallThen(Once, op, now+p.cfg.AttemptTimeout, func(c *Call) { ws.onStarted(p, w, c, now) })
		c.measure()
		if !p.room(f, c.size) {
			return
		}
		ws.nextID++
		delete(ws.byID, w.id)
		w.id, r.WatchId = ws.nextID, ws.nextID
		ws.byID[w.id] = w
		w.owedEvents, w.owedBytes = 0, 0
		c.liveIndex = len(p.live)
		p.live = append(p.live, c)
		p.earliest = min(p.earliest, c.Deadline)
		w.stage = stageRequested
		p.put(f, c, op)
	}
}

// resumption is the request that goes on where the watch has come to.
func (w *Watch) resumption() *messages.WatchRequest {
	r := proto.CloneOf(w.request)
	switch {
	case w.after != nil:
		r.FromRevision, r.After, r.List = 0, w.after, nil
	case w.Started != nil:
		// Also a watch "from now": what was written since it began must not be missed.
		r.FromRevision, r.After, r.List = w.Started.FromRevision, nil, nil
	}
	// Batches that the caller has not taken still use their credit. One event is the
	// least that can be asked for: 0 is the default.
	r.CreditEvents = uint32(max(w.creditEvents-w.heldEvents, 1))
	r.CreditBytes = uint32(max(w.creditBytes-w.heldBytes, 1))
	return r
}

func (ws *watches) onStarted(p *Pipeline, w *Watch, c *Call, now time.Duration) {
	if w.stage != stageRequested {
		return
	}
	if c.Err != nil {
		if p.link.up && messages.CodeOf(c.Err) == messages.Code_CODE_TIMEOUT {
			ws.cancels = append(ws.cancels, w.id) // it may begin yet
		}
		ws.onRefused(p, w, c.Err, now)
		return
	}
	ws.pause.clear()
	w.stage = stageLive
	if w.Started == nil {
		w.Started = c.Reply.GetWatch()
		w.changed()
	}
}

// onRefused goes on with a watch whose request or whose stream ended for a reason that
// time or another node may mend, and ends it otherwise.
func (ws *watches) onRefused(p *Pipeline, w *Watch, err error, now time.Duration) {
	switch code := messages.CodeOf(err); {
	case retryable(code):
		w.stage = stageWanted
		ws.pause.extend(now, time.Duration(messages.DetailOf(err).GetRetryAfterMs())*time.Millisecond, p.cfg.Random)
	case code == messages.Code_CODE_SLOW_CONSUMER:
		w.stage = stageParked
		if len(w.out) == 0 {
			w.stage = stageWanted
		}
	default:
		ws.finish(w, err)
	}
}

func (ws *watches) onEnd(p *Pipeline, e *messages.WatchEnd, now time.Duration) {
	w, ok := ws.byID[e.GetWatchId()]
	if !ok || w.stage != stageLive {
		return
	}
	err := messages.ErrorFrom(e.GetReason())
	if err == nil {
		err = messages.NewError(messages.Code_CODE_UNAVAILABLE, "the node ended the watch")
	}
	if strikes(messages.CodeOf(err)) {
		p.strike(err.(*messages.Error))
	}
	ws.onRefused(p, w, err, now)
}

func (ws *watches) onBatch(p *Pipeline, m *messages.WatchBatch) {
	w, ok := ws.byID[m.GetWatchId()]
	if !ok || w.stage != stageLive && w.stage != stageRequested {
		return
	}
	p.saw(m.GetTo().GetRevision())
	events, bytes := len(m.Events), 0
	if events > 0 {
		for _, e := range m.Events {
			bytes += int(messages.CreditBytes(e))
		}
		if w.after != nil && !before(w.after, m.Events[events-1]) {
			w.owedEvents += events
			w.owedBytes += bytes
			return // all of it was delivered
		}
		if j := w.joined.Events; len(j) > 0 && j[0].Revision != m.Events[0].Revision {
			w.deliver(true, 0, 0) // the rest of that revision was filtered out
		}
	}
	if m.To != nil {
		w.after = m.To
	}
	j := &w.joined
	j.Events = append(j.Events, m.Events...)
	j.To, j.Ready = m.To, j.Ready || m.Ready
	j.events, j.bytes = j.events+events, j.bytes+bytes
	if events > 0 && !m.Last && j.bytes < JoinBytesMax {
		// Collected, not delivered: the credit comes back at once, or a revision larger
		// than the credit would never be complete.
		w.owedEvents += events
		w.owedBytes += bytes
		return
	}
	// Of what was collected only this last part still holds credit.
	w.deliver(m.Last || events == 0, events, bytes)
}

// deliver hands what was collected to the caller. events and bytes are the credit that
// it holds until the caller takes it.
func (w *Watch) deliver(last bool, events, bytes int) {
	b := w.joined
	w.joined = Batch{}
	if len(b.Events) == 0 && !w.progress {
		return
	}
	b.Last, b.events, b.bytes = last, events, bytes
	w.heldEvents += events
	w.heldBytes += bytes
	w.out = append(w.out, b)
	w.changed()
}

// before tells whether the event stands after the position.
func before(p *messages.Position, e *messages.Event) bool {
	return p.Revision < e.Revision || p.Revision == e.Revision && p.OpIndex < e.OpIndex
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
