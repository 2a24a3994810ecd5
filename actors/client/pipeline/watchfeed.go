package pipeline

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// This file: what watches say to the node, and what it says to them.

func (ws *watches) disconnect() {
	ws.cancels = nil
	for _, w := range ws.order {
		if w.stage == stageRequested || w.stage == stageLive {
			ws.set(w, stageWanted)
		}
	}
}

func (ws *watches) reconnect() {
	ws.pause.clear()
	ws.shown = false
}

// set moves a watch to a stage.
func (ws *watches) set(w *Watch, to stage) {
	if w.stage == stageWanted {
		ws.wanted--
	}
	if to == stageWanted {
		ws.wanted++
	}
	w.stage = to
}

func (ws *watches) pending() bool { return ws.wanted > 0 }

// owe notes credit that was used, to be returned.
func (ws *watches) owe(w *Watch, events, bytes int) {
	w.owedEvents += events
	w.owedBytes += bytes
	if !w.listed && ws.owes(w) {
		w.listed = true
		ws.owing = append(ws.owing, w)
	}
}

// control returns one message that ends a watch or gives it credit.
func (ws *watches) control() *messages.ClientMessage {
	if len(ws.cancels) > 0 {
		// In the order of their ends: whether the writer comes between two must not matter.
		id := ws.cancels[0]
		ws.cancels = ws.cancels[1:]
		return &messages.ClientMessage{Message: &messages.ClientMessage_CancelWatch{CancelWatch: &messages.CancelWatch{WatchId: id}}}
	}
	for len(ws.owing) > 0 {
		last := len(ws.owing) - 1
		w := ws.owing[last]
		ws.owing[last] = nil
		ws.owing, w.listed = ws.owing[:last], false
		if !ws.owes(w) {
			continue // it is not on the connection any more
		}
		credit := &messages.WatchCredit{WatchId: w.id, Events: uint32(w.owedEvents), Bytes: uint32(w.owedBytes)}
		w.owedEvents, w.owedBytes = 0, 0
		ws.shown = true
		return &messages.ClientMessage{Message: &messages.ClientMessage_WatchCredit{WatchCredit: credit}}
	}
	return nil
}

// owes tells whether enough credit was used to be worth a message. The first that is used on
// a connection is: nodes send little to whoever has not shown that he reads.
func (ws *watches) owes(w *Watch) bool {
	return w.stage == stageLive && (w.owedEvents*2 >= w.creditEvents || w.owedBytes*2 >= w.creditBytes || !ws.shown && w.owedEvents > 0)
}

// talks tells whether control may have a message.
func (ws *watches) talks() bool {
	return len(ws.cancels) > 0 || len(ws.owing) > 0
}

// fill puts the requests of watches that are not on the connection into the frame.
func (ws *watches) fill(p *Pipeline, f *frame, now time.Duration) {
	if now < ws.pause.until || ws.wanted == 0 {
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
		ws.set(w, stageRequested)
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
	ws.set(w, stageLive)
	ws.owe(w, 0, 0) // what was used while the answer was on its way
	if w.Started == nil {
		w.Started = c.Reply.GetWatch()
		Signal(w.Changed)
	}
}

// onRefused goes on with a watch whose request or whose stream ended for a reason that
// time or another node may mend, and ends it otherwise.
func (ws *watches) onRefused(p *Pipeline, w *Watch, err error, now time.Duration) {
	switch code := messages.CodeOf(err); {
	case retryable(code):
		ws.set(w, stageWanted)
		ws.pause.extend(now, time.Duration(messages.DetailOf(err).GetRetryAfterMs())*time.Millisecond, p.cfg.Random)
	case code == messages.Code_CODE_SLOW_CONSUMER:
		ws.set(w, stageParked)
		if w.out.len() == 0 {
			ws.set(w, stageWanted)
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
	p.saw(m.GetTo().GetRevision())
	bytes := 0
	for _, e := range m.Events {
		if e.Type != messages.EventType_EVENT_TYPE_PUT && e.Type != messages.EventType_EVENT_TYPE_DELETE {
			p.endUnknown(m, e)
			return
		}
		bytes += int(messages.CreditBytes(e))
	}
	ws.deliverTo(m.GetWatchId(), m, bytes)
	for _, id := range m.AlsoWatchIds {
		ws.deliverTo(id, m, bytes)
	}
}

// endUnknown ends the watches of a batch with an event of a kind that a newer node made:
// whoever took it for a put, or left it out, would be wrong. Resume is before the batch.
func (p *Pipeline) endUnknown(m *messages.WatchBatch, e *messages.Event) {
	for _, id := range append([]uint64{m.GetWatchId()}, m.AlsoWatchIds...) {
		if w, ok := p.watches.byID[id]; ok && (w.stage == stageLive || w.stage == stageRequested) {
			p.CloseWatch(w, messages.NewError(messages.Code_CODE_UNSUPPORTED,
				"revision %d has an event of kind %d, which this client does not know", e.Revision, e.Type).WithField("type"))
		}
	}
}

// deliverTo takes a batch for one of the watches that it is for. bytes is the credit
// that its events use.
func (ws *watches) deliverTo(id uint64, m *messages.WatchBatch, bytes int) {
	w, ok := ws.byID[id]
	if !ok || w.stage != stageLive && w.stage != stageRequested {
		return
	}
	events := len(m.Events)
	if events > 0 {
		if w.after != nil && !before(w.after, m.Events[events-1]) {
			ws.owe(w, events, bytes)
			return // all of it was delivered
		}
		if j := w.joined.Events; len(j) > 0 && j[0].Revision != m.Events[0].Revision {
			ws.deliver(w, true, 0, 0) // the rest of that revision was filtered out
		}
	}
	if m.To != nil {
		w.after = m.To
	}
	j := &w.joined
	j.Ready = j.Ready || m.Ready
	if events == 0 && m.GetTo().GetOpIndex() != messages.PositionOpIndexEnd {
		return // inside a revision: the rest of it is yet to come
	}
	if len(j.Events) == 0 {
		j.Events = m.Events[:events:events] // others share it: appending copies
	} else {
		j.Events = append(j.Events, m.Events...)
	}
	j.To = m.To
	j.events, j.bytes = j.events+events, j.bytes+bytes
	if events > 0 && !m.Last && j.bytes < JoinBytesMax {
		// Collected, not delivered: the credit comes back at once, or a revision larger
		// than the credit would never be complete.
		ws.owe(w, events, bytes)
		return
	}
	// Of what was collected only this last part still holds credit.
	ws.deliver(w, m.Last || events == 0, events, bytes)
}

// deliver hands what was collected to the caller. events and bytes are the credit that
// it holds until the caller takes it.
func (ws *watches) deliver(w *Watch, last bool, events, bytes int) {
	b := w.joined
	w.joined = Batch{}
	if len(b.Events) == 0 && !w.progress {
		return
	}
	b.Last, b.events, b.bytes = last, events, bytes
	w.heldEvents += events
	w.heldBytes += bytes
	w.out.push(b)
	switch {
	case w.feed != nil:
		if w.feed.add(w) {
			ws.woken = append(ws.woken, w.feed.Changed)
		}
	case !w.woken:
		w.woken = true
		ws.rouse, ws.woken = append(ws.rouse, w), append(ws.woken, w.Changed)
	}
}

// before tells whether the event stands after the position.
func before(p *messages.Position, e *messages.Event) bool {
	return p.Revision < e.Revision || p.Revision == e.Revision && p.OpIndex < e.OpIndex
}
