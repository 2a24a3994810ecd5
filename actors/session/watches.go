package session

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// watches are the connection's watches, from the request to the end.
type watches struct {
	byID map[uint64]*watch
}

// watch is one of them. The hub feeds it; the session knows as much as it takes to
// answer for it.
type watch struct {
	id       uint64
	selector *messages.Selector
	request  *messages.WatchRequest
	call     uint64
	bytes    int64 // of the request, while the call is in flight
	stage    stage
	list     *messages.ListReply // to answer the call with
	at       *messages.Position  // how far the client was told
	// What came before the hub knew the watch.
	creditEvents, creditBytes uint32
}

type stage uint8

const (
	waiting  stage = iota // for a view that says where it begins
	starting              // the hub has it, its answer is on the way
	running
)

// onWatch begins a watch: at the place the client names, or where a view stands
// that has everything acknowledged before the call.
func (c *core) onWatch(call uint64, r *messages.WatchRequest, size int64, timeoutMs uint32) *messages.Error {
	r, err := withSelector(r)
	if err != nil {
		return err
	}
	if err := messages.ValidateWatch(r); err != nil {
		return err
	}
	if c.who.guarded {
		if err := c.mayWatch(r); err != nil {
			return err
		}
	}
	if c.watches.byID[r.WatchId] != nil {
		return messages.NewError(messages.Code_CODE_WATCH_EXISTS, "the connection has a watch %d", r.WatchId).WithField("watch_id")
	}
	if err := c.admission.mayChurn(c.client); err != nil {
		return err
	}
	if err := c.admit(size, false); err != nil {
		return err
	}
	c.owing = c.admission.pay(c.client, priceWatch) || c.owing
	w := &watch{id: r.WatchId, selector: r.Selector, request: r, call: call, bytes: size}
	c.watches.byID[w.id] = w
	switch {
	case r.After != nil:
		c.startWatch(w, protocol.PositionOf(r.After))
	case r.FromRevision != 0:
		c.startWatch(w, protocol.EndOf(r.FromRevision-1))
	default:
		c.addRead(&read{call: call, watch: w, bytes: size, timeoutMs: timeoutMs, deadlineMs: c.nowMs + int64(timeoutMs)}, false)
	}
	return nil
}

// withSelector gives the list of a list-and-watch the watch's selector. Any other
// one would leave keys without a list, or without a watch.
func withSelector(r *messages.WatchRequest) (*messages.WatchRequest, *messages.Error) {
	list := r.GetList()
	switch {
	case list == nil || proto.Equal(list.Selector, r.Selector):
		return r, nil
	case list.Selector != nil:
		return nil, messages.InvalidField("list.selector", "must be the watch's, or missing")
	}
	r = proto.CloneOf(r)
	r.List.Selector = r.Selector
	return r, nil
}

// beginAtView starts a watch at the view's revision, with its list if one was asked
// for. It returns the size of the list.
func (c *core) beginAtView(r *read, v view) int64 {
	w := r.watch
	bytes := int64(0)
	if c.refreshIdentity(); r.done {
		return 0 // its rights are gone, and so is the watch
	}
	if w.request.List != nil {
		reply, err := c.longQuery(v, &messages.Query{Query: &messages.Query_List{List: w.request.List}}, c.cfg.Node.Now())
		if err != nil {
			c.failRead(r, err.Detail)
			return 0
		}
		w.list = reply.GetList()
		bytes = int64(proto.Size(w.list))
	}
	r.done = true
	c.startWatch(w, protocol.EndOf(v.Revision()))
	return bytes
}

func (c *core) startWatch(w *watch, after protocol.Position) {
	w.stage, w.at = starting, after.Proto()
	c.port.tellHub(&protocol.StartWatch{Session: c.id, Call: w.call, Request: w.request, After: after, Reads: c.peer.Kind == transport.KindInProcess || c.peer.Kind == transport.KindEtcd})
	if w.creditEvents|w.creditBytes != 0 {
		c.port.tellHub(&protocol.GrantCredit{Session: c.id, WatchID: w.id, Events: w.creditEvents, Bytes: w.creditBytes})
	}
}

// onCredit passes credit on. For a watch that is over there is nobody to tell: the
// end is on its way to the client.
func (c *core) onCredit(m *messages.WatchCredit) {
	w := c.watches.byID[m.GetWatchId()]
	switch {
	case w == nil:
	case w.stage == waiting:
		w.creditEvents = addCredit(w.creditEvents, m.Events)
		w.creditBytes = addCredit(w.creditBytes, m.Bytes)
	default:
		c.port.tellHub(&protocol.GrantCredit{Session: c.id, WatchID: w.id, Events: m.Events, Bytes: m.Bytes, Progress: m.Progress})
	}
}

func addCredit(a, b uint32) uint32 {
	return uint32(min(uint64(a)+uint64(b), messages.WatchCreditBytesMax))
}

func (c *core) onCancel(m *messages.CancelWatch) {
	c.owes += priceCancel
	w := c.watches.byID[m.GetWatchId()]
	switch {
	case w == nil:
	case w.stage == waiting:
		c.cancelWaiting(w, messages.NewError(messages.Code_CODE_CANCELLED, "cancelled by the client"))
	default:
		c.port.tellHub(&protocol.CancelWatch{Session: c.id, WatchID: w.id})
	}
}

// cancelWaiting answers the call of a watch that the hub does not know yet.
func (c *core) cancelWaiting(w *watch, reason *messages.Error) {
	for r := range c.allReads() {
		if r.watch == w {
			c.failRead(r, reason.Detail)
			return
		}
	}
}

// deliver passes on what the hub has for this connection.
func (c *core) deliver(m *protocol.Deliver) {
	c.refreshIdentity() // before the events that follow a change of rights
	dropped := int64(0)
	for i := range m.Items {
		switch item := &m.Items[i]; {
		case item.Batch != nil:
			if !c.sendBatch(item) {
				dropped += item.Bytes
			}
		case item.Started != nil:
			c.onStarted(item.Started)
		case item.Refused != nil:
			c.onRefused(item.Refused)
		case item.End != nil:
			c.onEnd(item.End)
		}
	}
	if dropped > 0 {
		c.port.tellHub(&protocol.Drained{Session: c.id, Bytes: dropped})
	}
}

// sendBatch sends a batch to those of its watches that live; false when none does.
func (c *core) sendBatch(item *protocol.Item) bool {
	if c.phase == closing {
		return false
	}
	ids := item.WatchIDs // they are this session's to change
	live := ids[:0]
	for _, id := range ids {
		if w := c.watches.byID[id]; w != nil {
			w.at = item.Batch.To()
			live = append(live, id)
		}
	}
	if len(live) == 0 {
		return false
	}
	c.sendReplies() // the answer that the watch has begun comes first
	c.push(outgoing{batch: item.Batch, ids: live, bytes: item.Bytes, window: item.Bytes})
	return true
}

func (c *core) onStarted(m *protocol.Started) {
	w := c.watches.byID[m.WatchID]
	if w == nil || w.call != m.Call || w.stage != starting {
		return // it was ended here meanwhile
	}
	w.stage = running
	reply := &messages.WatchStarted{WatchId: m.WatchID, FromRevision: m.From, CurrentRevision: m.Current, List: w.list}
	c.reply(&messages.Reply{Call: m.Call, Reply: &messages.Reply_Watch{Watch: reply}}, int64(proto.Size(reply))+32, w.bytes)
	w.list, w.request = nil, nil
}

func (c *core) onRefused(m *protocol.Refused) {
	for id, w := range c.watches.byID {
		if w.call == m.Call && w.stage == starting {
			delete(c.watches.byID, id)
			c.fail(m.Call, m.Error, w.bytes)
			return
		}
	}
}

func (c *core) onEnd(m *messages.WatchEnd) {
	if c.watches.byID[m.WatchId] == nil {
		return
	}
	delete(c.watches.byID, m.WatchId)
	c.sendReplies()
	c.send(&messages.ServerMessage{Message: &messages.ServerMessage_WatchEnd{WatchEnd: m}})
}

// endWatches ends all of them without asking the hub, in the order of their ids.
func (c *core) endWatches(reason *messages.Error) {
	for _, w := range c.sortedWatches() {
		c.forgetWatch(w, reason)
	}
	c.port.tellHub(&protocol.SessionClosed{Session: c.id})
}

func (c *core) sortedWatches() []*watch {
	return slices.SortedFunc(maps.Values(c.watches.byID), func(a, b *watch) int { return cmp.Compare(a.id, b.id) })
}

// endWatch ends one for a reason of the session's own.
func (c *core) endWatch(w *watch, reason *messages.Error) {
	known := w.stage != waiting
	c.forgetWatch(w, reason)
	if known {
		c.port.tellHub(&protocol.CancelWatch{Session: c.id, WatchID: w.id})
	}
}

// forgetWatch tells the client that a watch is over. What the hub still has for it is
// dropped.
func (c *core) forgetWatch(w *watch, reason *messages.Error) {
	switch w.stage {
	case waiting:
		c.cancelWaiting(w, reason)
	case starting:
		delete(c.watches.byID, w.id)
		c.fail(w.call, reason.Detail, w.bytes)
	case running:
		c.onEnd(&messages.WatchEnd{WatchId: w.id, Reason: reason.Detail, Resume: w.at})
	}
}

// allReads yields every read that has not been answered.
func (c *core) allReads() func(yield func(*read) bool) {
	return func(yield func(*read) bool) {
		lists := [][]*read{c.reads.barrier, c.reads.view, c.reads.retry}
		for _, g := range c.reads.barriers {
			lists = append(lists, g.reads)
		}
		for _, g := range c.reads.views {
			lists = append(lists, g.reads)
		}
		for _, b := range c.reads.ready {
			lists = append(lists, b.reads)
		}
		for _, l := range lists {
			for _, r := range l {
				if !r.done && !yield(r) {
					return
				}
			}
		}
	}
}
