package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/messages"
)

// delivered takes a batch, or the end of a watch, from a session. It does not block.
func (ws *watchStream) delivered(c *watchConn, m *messages.ServerMessage) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if e := m.GetWatchEnd(); e != nil {
		if w := c.watches[e.WatchId]; w != nil {
			ws.ended(w, e)
		}
		return
	}
	b := m.GetWatchBatch()
	shared := &converted{}
	for i := -1; i < len(b.AlsoWatchIds); i++ {
		id := b.WatchId
		if i >= 0 {
			id = b.AlsoWatchIds[i]
		}
		w := c.watches[id]
		switch {
		case w == nil: // cancelled
		case w.held:
			w.early = append(w.early, b)
		default:
			ws.batch(w, b, shared)
		}
	}
}

// converted is a batch's events in etcd's form, shared by the watches it is for.
type converted struct {
	events []*mvccpb.Event
	done   bool
}

// batch queues a batch for a watch. The lock is held.
func (ws *watchStream) batch(w *watcher, b *messages.WatchBatch, shared *converted) {
	to := b.GetTo()
	whole := to.GetOpIndex() == messages.PositionOpIndexEnd || b.Last
	events := b.Events
	switch {
	case len(events) == 0 && len(w.part) == 0:
		w.at = max(w.at, completed(to, whole))
		ws.told(w)
		return
	case !whole:
		// The rest of its revision comes only for more credit.
		w.part = append(w.part, events...)
		ws.credit(w, events)
		return
	case len(w.part) > 0:
		ws.credit(w, events)
		events = append(w.part, events...)
		w.part, shared = nil, nil
	}
	w.at = max(w.at, to.GetRevision())
	w.busy = true
	if w.mute {
		ws.credit(w, events)
		ws.told(w)
		return
	}
	out := outgoing{watcher: w, events: len(events), header: to.GetRevision()}
	if shared == nil {
		out.list = ws.server.events(events)
		out.events = 0 // the credit has been returned
		if len(b.Events) == len(events) {
			out.events = len(events)
		}
	} else {
		if !shared.done {
			shared.events, shared.done = ws.server.events(events), true
		}
		out.list = shared.events
	}
	for _, e := range b.Events {
		out.bytes += messages.CreditBytes(e)
	}
	if out.events == 0 {
		out.bytes = 0
	}
	ws.push(out)
	ws.told(w)
}

// completed is the last revision of which a position leaves nothing out.
func completed(to *messages.Position, whole bool) uint64 {
	if whole || to.GetRevision() == 0 {
		return to.GetRevision()
	}
	return to.GetRevision() - 1
}

// eventsOf is a message of events that cost no credit.
func (ws *watchStream) eventsOf(w *watcher, list []*messages.Event, header uint64) outgoing {
	return outgoing{watcher: w, list: ws.server.events(list), header: header}
}

func (s *Server) events(list []*messages.Event) []*mvccpb.Event {
	out := make([]*mvccpb.Event, len(list))
	for i, e := range list {
		if e.Type == messages.EventType_EVENT_TYPE_DELETE {
			out[i] = &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{
				Key: e.GetRecord().GetKey(), ModRevision: outRevision(e.Revision),
			}}
		} else {
			out[i] = &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: s.keyValue(e.Record)}
		}
		out[i].PrevKv = s.keyValue(e.Prev)
	}
	return out
}

// credit returns the credit of events at once. The lock is held.
func (ws *watchStream) credit(w *watcher, events []*messages.Event) {
	bytes := int64(0)
	for _, e := range events {
		bytes += messages.CreditBytes(e)
	}
	ws.grant(w, len(events), bytes)
}

// Credit is returned once a quarter of what a watch began with has been taken: for each
// event and watch it would cost the session more than the event does. What is left to the
// session meanwhile is at least three quarters, so that it never waits for what is owed.
const (
	creditEventsAtOnce = messages.WatchCreditEventsDefault / 4
	creditBytesAtOnce  = messages.WatchCreditBytesDefault / 4
)

// grant returns the credit of what was taken. The lock is held.
func (ws *watchStream) grant(w *watcher, events int, bytes int64) {
	c := w.conn
	if c == nil || events == 0 {
		return
	}
	w.owedEvents, w.owedBytes = w.owedEvents+events, w.owedBytes+bytes
	if w.owedEvents < creditEventsAtOnce && w.owedBytes < creditBytesAtOnce {
		return
	}
	m := &messages.ClientMessage{Message: &messages.ClientMessage_WatchCredit{WatchCredit: &messages.WatchCredit{
		WatchId: w.ours, Events: uint32(w.owedEvents), Bytes: uint32(min(w.owedBytes, messages.WatchCreditBytesMax)),
	}}}
	w.owedEvents, w.owedBytes = 0, 0
	// Sending may wait for the session, which may wait for its reader: not from here.
	c.conn.later(m)
}

// ended takes the end of a watch. One that fell behind goes on by itself. The lock is held.
func (ws *watchStream) ended(w *watcher, e *messages.WatchEnd) {
	reason := e.GetReason()
	delete(w.conn.watches, w.ours)
	switch reason.GetCode() {
	case messages.Code_CODE_COMPACTED:
		ws.removeLocked(w)
		ws.push(outgoing{response: &pb.WatchResponse{
			Header: ws.server.bareHeader(), WatchId: w.id, Canceled: true, CompactRevision: outRevision(reason.GetCompactRevision()),
		}})
	case messages.Code_CODE_SLOW_CONSUMER:
		w.part = nil
		go ws.resume(ws.ctx, w, &messages.Position{Revision: w.at, OpIndex: messages.PositionOpIndexEnd})
	case messages.Code_CODE_PERMISSION_DENIED:
		// Its rights are gone; the stream's other watches go on.
		ws.removeLocked(w)
		ws.push(outgoing{response: &pb.WatchResponse{
			Header: ws.server.header(ws.server.cfg.Facts().Revision), WatchId: w.id, Canceled: true, CancelReason: rpctypes.ErrGRPCPermissionDenied.Error(),
		}})
	case messages.Code_CODE_UNAUTHENTICATED:
		ws.fail(errStreamToken)
	default:
		ws.fail(messages.ErrorFrom(reason))
	}
}

// errStreamToken ends a stream whose token is not good any more. To "invalid auth token"
// etcd's clients would give up; after this they get themselves another token and resume.
var errStreamToken = status.Error(codes.Unavailable, "etcdserver: the token of this stream is not valid any more")

// resume goes on with a watch after what the client was sent.
func (ws *watchStream) resume(ctx context.Context, w *watcher, after *messages.Position) {
	_, err := ws.start(ctx, w, 0, after)
	switch {
	case err == nil:
	case refused(err, messages.Code_CODE_COMPACTED):
		ws.endCompacted(w, messages.DetailOf(err).GetCompactRevision())
	default:
		ws.fail(err)
	}
}
