package etcd

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/concord-kv/concord/messages"
)

// watchServer is etcd's Watch service.
type watchServer struct {
	*Server
	pb.UnsafeWatchServer
}

// noWatch is the id of answers that are about no watch, or about all of them.
const noWatch = -1

// Reasons that etcd gives for a watch that cannot be.
const (
	reasonEmptyRange  = "mvcc: watcher range is empty"
	reasonDuplicateID = "mvcc: duplicate watch ID provided on the WatchStream"
)

// Watch serves the watches of one stream. It ends, with an error after which clients
// resume elsewhere, when the node stops or has lost its cluster.
func (s *watchServer) Watch(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	ws := newWatchStream(ctx, s.Server)
	defer ws.close()
	received := make(chan error, 1)
	go func() { received <- ws.receive(ctx, stream) }()
	sent := make(chan error, 1)
	go func() { sent <- ws.send(ctx, stream) }()
	progress := time.NewTicker(s.cfg.ProgressInterval)
	defer progress.Stop()
	for {
		select {
		case err := <-received:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return toStatus(err)
		case err := <-sent:
			return toStatus(err)
		case err := <-ws.failed:
			return toStatus(err)
		case <-progress.C:
			ws.notifyIdle()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return rpctypes.ErrGRPCWatchCanceled
			}
			return toStatus(ctx.Err())
		}
	}
}

// receive does what the client asks for, one after the other: answers to creations come in
// the order of the requests.
func (ws *watchStream) receive(ctx context.Context, stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		switch q := r.GetRequestUnion().(type) {
		case *pb.WatchRequest_CreateRequest:
			if q.CreateRequest != nil {
				if err := ws.create(ctx, q.CreateRequest); err != nil {
					return err
				}
			}
		case *pb.WatchRequest_CancelRequest:
			ws.cancel(q.CancelRequest.GetWatchId())
		case *pb.WatchRequest_ProgressRequest:
			ws.requestProgress()
		}
	}
}

// create starts a watch and says that it did, or why not.
func (ws *watchStream) create(ctx context.Context, r *pb.WatchCreateRequest) error {
	key := r.Key
	if len(key) == 0 {
		key = []byte{0} // the smallest key
	}
	if r.StartRevision < 0 {
		ws.refuse(rpctypes.ErrCompacted.Error())
		return nil
	}
	sel, empty := selectorOf(key, r.RangeEnd)
	if empty {
		ws.refuse(reasonEmptyRange)
		return nil
	}
	w := &watcher{
		selector: sel, prevKV: r.PrevKv, fragment: r.Fragment, notify: r.ProgressNotify,
		held: true, types: typesOf(r.Filters), mute: len(r.Filters) > 0 && len(typesOf(r.Filters)) == 0,
	}
	if !ws.add(w, r.WatchId) {
		ws.refuse(reasonDuplicateID)
		return nil
	}
	from := uint64(0) // now
	if r.StartRevision > 0 {
		from = uint64(max(1, r.StartRevision-1))
	}
	started, err := ws.start(ctx, w, from, nil)
	var compacted *messages.Error
	switch {
	case err == nil:
		ws.created(w, started, nil)
	case errors.As(err, &compacted) && compacted.Code() == messages.Code_CODE_COMPACTED:
		return ws.createCompacted(ctx, w, from, compacted.Detail.GetCompactRevision())
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		ws.remove(w)
		ws.refuse(toStatus(clientOf(ctx).refusal(err)).Error())
	}
	return nil
}

// createCompacted starts a watch whose first revision has been compacted. etcd still has
// the last events of exactly the compact revision: those are shown as the keys that it
// left behind.
func (ws *watchStream) createCompacted(ctx context.Context, w *watcher, from, c uint64) error {
	if from == c {
		list, err := ws.server.leftAt(ctx, w, c)
		if err == nil {
			var started *messages.WatchStarted
			if started, err = ws.start(ctx, w, c+1, nil); err == nil {
				ws.created(w, started, list)
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var again *messages.Error
		if errors.As(err, &again) && again.Code() == messages.Code_CODE_COMPACTED {
			c = again.Detail.GetCompactRevision()
		}
	}
	ws.created(w, &messages.WatchStarted{CurrentRevision: ws.server.cfg.Facts().Revision}, nil)
	ws.endCompacted(w, c)
	return nil
}

// leftAt returns what of revision c is still there at it, as events.
func (s *Server) leftAt(ctx context.Context, w *watcher, c uint64) ([]*messages.Event, error) {
	if len(w.types) > 0 && !slices.Contains(w.types, messages.EventType_EVENT_TYPE_PUT) {
		return nil, nil
	}
	p := &paging{server: s, request: &messages.ListRequest{Selector: w.selector, Revision: c, ModRevisionMin: c, ModRevisionMax: c}}
	var events []*messages.Event
	for {
		l, err := p.page(ctx, messages.ListLimitMax)
		if err != nil {
			return nil, err
		}
		for _, r := range l.Records {
			events = append(events, &messages.Event{Revision: c, OpIndex: uint32(len(events)), Type: messages.EventType_EVENT_TYPE_PUT, Record: r})
		}
		if !l.HasMore {
			return events, nil
		}
	}
}

// typesOf returns the types of events that the filters leave; none for all of them, or
// for nothing at all.
func typesOf(filters []pb.WatchCreateRequest_FilterType) []messages.EventType {
	var put, del bool
	for _, f := range filters {
		put = put || f == pb.WatchCreateRequest_NOPUT
		del = del || f == pb.WatchCreateRequest_NODELETE
	}
	switch {
	case put && !del:
		return []messages.EventType{messages.EventType_EVENT_TYPE_DELETE}
	case del && !put:
		return []messages.EventType{messages.EventType_EVENT_TYPE_PUT}
	}
	return nil
}
