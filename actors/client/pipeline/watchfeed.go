package pipeline

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// This file: what watches say to the node, and what it says to them.

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
