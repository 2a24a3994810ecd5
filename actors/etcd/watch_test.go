package etcd_test

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// watching is one stream of watches of an endpoint.
type watching struct {
	*endpoint
	stream pb.Watch_WatchClient
}

func watch(e *endpoint) *watching {
	e.t.Helper()
	s, err := pb.NewWatchClient(e.conn).Watch(e.ctx)
	if err != nil {
		e.t.Fatal(err)
	}
	return &watching{e, s}
}

func (w *watching) create(r *pb.WatchCreateRequest) {
	w.t.Helper()
	if err := w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
		w.t.Fatal(err)
	}
}

// keys is a watch of all keys that begin with k.
func keys(r *pb.WatchCreateRequest) *pb.WatchCreateRequest {
	r.Key, r.RangeEnd = []byte("k"), []byte("l")
	return r
}

func (w *watching) next() *pb.WatchResponse {
	w.t.Helper()
	r, err := w.stream.Recv()
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// created creates a watch, which gets this id.
func (w *watching) created(r *pb.WatchCreateRequest, id int64) *pb.WatchResponse {
	w.t.Helper()
	w.create(r)
	a := w.next()
	if !a.Created || a.Canceled || a.WatchId != id {
		w.t.Fatalf("%v, want watch %d", a, id)
	}
	return a
}

// TestWatchIDs: ids are the client's wish or the next one, and what cannot be is refused
// in etcd's words.
func TestWatchIDs(t *testing.T) {
	w := watch(start(t))
	w.created(keys(&pb.WatchCreateRequest{}), 0)
	w.created(keys(&pb.WatchCreateRequest{WatchId: 9}), 9)
	for reason, r := range map[string]*pb.WatchCreateRequest{
		"mvcc: duplicate watch ID provided on the WatchStream": keys(&pb.WatchCreateRequest{WatchId: 9}),
		"mvcc: watcher range is empty":                         {Key: []byte("b"), RangeEnd: []byte("a")},
		rpctypes.ErrCompacted.Error():                          keys(&pb.WatchCreateRequest{StartRevision: -1}),
	} {
		w.create(r)
		if a := w.next(); !a.Created || !a.Canceled || a.WatchId != -1 || a.CancelReason != reason {
			t.Fatalf("%v, want %s", a, reason)
		}
	}
	w.created(keys(&pb.WatchCreateRequest{}), 1)
	if err := w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: 9}}}); err != nil {
		t.Fatal(err)
	}
	if a := w.next(); !a.Canceled || a.WatchId != 9 {
		t.Fatalf("%v", a)
	}
	w.created(keys(&pb.WatchCreateRequest{WatchId: 9}), 9)
}

// TestWatchEvents: from a revision on, with previous values, through filters.
func TestWatchEvents(t *testing.T) {
	e := start(t)
	e.put("k1", "a")
	e.put("k1", "b")
	w := watch(e)
	if a := w.created(keys(&pb.WatchCreateRequest{StartRevision: 3, PrevKv: true}), 0); a.Header.Revision != 3 {
		t.Fatalf("%v", a)
	}
	if a := w.next(); len(a.Events) != 1 || string(a.Events[0].PrevKv.Value) != "a" || a.Events[0].Kv.Version != 2 {
		t.Fatalf("%v", a)
	}
	w.created(keys(&pb.WatchCreateRequest{Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}}), 1)
	if _, err := e.kv.DeleteRange(e.ctx, &pb.DeleteRangeRequest{Key: []byte("k1")}); err != nil {
		t.Fatal(err)
	}
	for seen := map[int64]bool{}; len(seen) < 2; {
		a := w.next()
		if len(a.Events) != 1 || a.Events[0].Type != mvccpb.Event_DELETE || a.Header.Revision != 4 || seen[a.WatchId] {
			t.Fatalf("%v", a)
		}
		seen[a.WatchId] = true
	}
	last := e.put("k2", "c").Header.Revision
	if a := w.next(); a.WatchId != 0 || a.Header.Revision != last {
		t.Fatalf("not through the filter, and not from the other: %v", a)
	}
}

// TestWatchProgress: a stream is told how far all its watches are when it asks, an idle
// watch that wanted it by itself.
func TestWatchProgress(t *testing.T) {
	e := start(t)
	w := watch(e)
	w.created(keys(&pb.WatchCreateRequest{}), 0)
	last := e.put("other", "v").Header.Revision
	if err := w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}); err != nil {
		t.Fatal(err)
	}
	if a := w.next(); a.WatchId != -1 || len(a.Events) != 0 || a.Header.Revision != last {
		t.Fatalf("%v", a)
	}
	w.created(keys(&pb.WatchCreateRequest{ProgressNotify: true}), 1)
	if a := w.next(); a.WatchId != 1 || len(a.Events) != 0 || a.Header.Revision != last {
		t.Fatalf("nobody said how far the idle watch is: %v", a)
	}
}

// TestWatchCompacted: from exactly the compact revision a watch is told of the keys that it
// left; from before it, that they are gone.
func TestWatchCompacted(t *testing.T) {
	e := start(t)
	e.put("k1", "a")
	last := e.put("k2", "kept").Header.Revision
	if _, err := e.kv.Compact(e.ctx, &pb.CompactionRequest{Revision: last}); err != nil {
		t.Fatal(err)
	}
	w := watch(e)
	w.created(keys(&pb.WatchCreateRequest{StartRevision: last}), 0)
	if a := w.next(); a.WatchId != 0 || len(a.Events) != 1 || string(a.Events[0].Kv.Key) != "k2" {
		t.Fatalf("at the compact revision: %v", a)
	}
	w.created(keys(&pb.WatchCreateRequest{StartRevision: 2}), 1)
	if a := w.next(); a.WatchId != 1 || !a.Canceled || a.CompactRevision != last {
		t.Fatalf("%v", a)
	}
}
