package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// outgoing is one message to the client: a response as it stands, or events of a watch.
type outgoing struct {
	response *pb.WatchResponse

	watcher *watcher
	list    []*mvccpb.Event
	header  uint64 // revision of ours
	// The credit that is returned when it has been sent.
	events int
	bytes  int64
}

const (
	// joinEventsMax is how many events of one watch that wait anyway are sent as one message.
	joinEventsMax = 1_000
	// fragmentBytes is from where a message of a watch that asked for it is taken apart.
	fragmentBytes = 2 << 20
)

// push queues a message. The lock is held.
func (ws *watchStream) push(o outgoing) {
	ws.queue = append(ws.queue, o)
	select {
	case ws.wake <- struct{}{}:
	default:
	}
}

// send sends what is queued until the stream ends.
func (ws *watchStream) send(ctx context.Context, stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	for {
		select {
		case <-ws.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		ws.mu.Lock()
		list := ws.queue
		ws.queue = nil
		ws.mu.Unlock()
		for len(list) > 0 {
			n := joined(list)
			if err := ws.sendOne(stream, list[:n]); err != nil {
				return err
			}
			list = list[n:]
		}
	}
}

// joined returns how many messages at the front can go as one: those of one watch.
func joined(list []outgoing) int {
	n, events := 1, len(list[0].list)
	for list[0].response == nil && n < len(list) && list[n].watcher == list[0].watcher && list[n].response == nil {
		if events += len(list[n].list); events > joinEventsMax {
			break
		}
		n++
	}
	return n
}

func (ws *watchStream) sendOne(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse], list []outgoing) error {
	last := list[len(list)-1]
	if last.response != nil {
		return stream.Send(last.response)
	}
	w := last.watcher
	r := &pb.WatchResponse{Header: ws.server.header(last.header), WatchId: w.id, Events: last.list}
	events, bytes := last.events, last.bytes
	if len(list) > 1 {
		r.Events = nil
		events, bytes = 0, 0
		for _, o := range list {
			r.Events = append(r.Events, o.list...)
			events += o.events
			bytes += o.bytes
		}
	}
	if err := sendFragments(w.fragment, r, stream.Send); err != nil {
		return err
	}
	ws.mu.Lock()
	ws.grant(w, events, bytes)
	ws.mu.Unlock()
	return nil
}

// sendFragments sends a message, in several if it is large and the client takes that.
func sendFragments(may bool, r *pb.WatchResponse, send func(*pb.WatchResponse) error) error {
	if !may || len(r.Events) < 2 || proto.Size(r) < fragmentBytes {
		return send(r)
	}
	for rest := r.Events; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && (n == 0 || size < fragmentBytes) {
			size += proto.Size(rest[n]) + 8
			n++
		}
		if size >= fragmentBytes && n > 1 {
			n--
		}
		one := &pb.WatchResponse{Header: r.Header, WatchId: r.WatchId, Events: rest[:n], Fragment: n < len(rest)}
		if err := send(one); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// requestProgress asks every watch how far it is. When all have said so, and none is
// behind, the client is told once for all.
func (ws *watchStream) requestProgress() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byID) == 0 {
		return
	}
	ws.asked = true
	for _, w := range ws.byID {
		w.answering = true
		w.askProgress()
	}
}

// notifyIdle asks the watches that want to be told and have had no event for a while.
func (ws *watchStream) notifyIdle() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byID {
		if w.notify && !w.busy {
			w.idle = true
			w.askProgress()
		}
		w.busy = false
	}
}

func (w *watcher) askProgress() {
	if w.conn != nil {
		w.conn.conn.later(&messages.ClientMessage{Message: &messages.ClientMessage_WatchCredit{
			WatchCredit: &messages.WatchCredit{WatchId: w.ours, Progress: true},
		}})
	}
}

// told notes that a watch has said how far it is. The lock is held.
func (ws *watchStream) told(w *watcher) {
	if w.idle {
		w.idle = false
		if !w.busy {
			ws.push(outgoing{response: &pb.WatchResponse{Header: ws.server.header(ws.capped(w.at)), WatchId: w.id}})
		}
	}
	if w.answering {
		w.answering = false
		ws.answerProgress()
	}
}

// capped leaves out revisions that do not exist yet: a watch of the future is past them.
func (ws *watchStream) capped(at uint64) uint64 { return min(at, ws.server.cfg.Facts().Revision) }

// answerProgress tells the client how far all its watches are, once they have said so.
// The lock is held.
func (ws *watchStream) answerProgress() {
	if !ws.asked {
		return
	}
	at, any := ^uint64(0), false
	for _, w := range ws.byID {
		if w.answering {
			return
		}
		at, any = min(at, w.at), true
	}
	ws.asked = false
	if any {
		ws.push(outgoing{response: &pb.WatchResponse{Header: ws.server.header(ws.capped(at)), WatchId: noWatch}})
	}
}
