package etcd_test

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// TestWatch: ids, filters, previous values, progress, and the events of exactly the
// compact revision.
func TestWatch(t *testing.T) {
	e := start(t)
	e.put("k1", "a")
	e.put("k1", "b")
	stream, err := pb.NewWatchClient(e.conn).Watch(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	create := func(r *pb.WatchCreateRequest) {
		t.Helper()
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
			t.Fatal(err)
		}
	}
	next := func() *pb.WatchResponse {
		t.Helper()
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	prefix := func(r *pb.WatchCreateRequest) *pb.WatchCreateRequest {
		r.Key, r.RangeEnd = []byte("k"), []byte("l")
		return r
	}
	create(prefix(&pb.WatchCreateRequest{StartRevision: 3, PrevKv: true}))
	if r := next(); !r.Created || r.WatchId != 0 || r.Header.Revision != 3 {
		t.Fatalf("%v", r)
	}
	if r := next(); len(r.Events) != 1 || string(r.Events[0].PrevKv.Value) != "a" || r.Events[0].Kv.Version != 2 {
		t.Fatalf("%v", r)
	}
	create(prefix(&pb.WatchCreateRequest{WatchId: 0, StartRevision: -1}))
	if r := next(); !r.Created || !r.Canceled || r.WatchId != -1 || r.CancelReason != rpctypes.ErrCompacted.Error() {
		t.Fatalf("%v", r)
	}
	create(prefix(&pb.WatchCreateRequest{WatchId: 9, Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}}))
	if r := next(); !r.Created || r.WatchId != 9 {
		t.Fatalf("%v", r)
	}
	create(prefix(&pb.WatchCreateRequest{WatchId: 9}))
	if r := next(); r.CancelReason != "mvcc: duplicate watch ID provided on the WatchStream" {
		t.Fatalf("%v", r)
	}
	create(&pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: []byte("a")})
	if r := next(); r.CancelReason != "mvcc: watcher range is empty" {
		t.Fatalf("%v", r)
	}
	if _, err := e.kv.DeleteRange(e.ctx, &pb.DeleteRangeRequest{Key: []byte("k1")}); err != nil {
		t.Fatal(err)
	}
	for seen := map[int64]bool{}; len(seen) < 2; {
		r := next()
		if len(r.Events) != 1 || r.Events[0].Type != mvccpb.Event_DELETE || r.Header.Revision != 4 {
			t.Fatalf("%v", r)
		}
		seen[r.WatchId] = true
	}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}); err != nil {
		t.Fatal(err)
	}
	if r := next(); r.WatchId != -1 || len(r.Events) != 0 || r.Header.Revision != 4 {
		t.Fatalf("progress: %v", r)
	}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: 9}}}); err != nil {
		t.Fatal(err)
	}
	if r := next(); !r.Canceled || r.WatchId != 9 {
		t.Fatalf("%v", r)
	}
	last := e.put("k2", "kept").Header.Revision
	if r := next(); r.WatchId != 0 || r.Header.Revision != last {
		t.Fatalf("%v", r)
	}
	if _, err := e.kv.Compact(e.ctx, &pb.CompactionRequest{Revision: last}); err != nil {
		t.Fatal(err)
	}
	create(prefix(&pb.WatchCreateRequest{StartRevision: last, ProgressNotify: true}))
	if r := next(); !r.Created || r.WatchId != 1 {
		t.Fatalf("%v", r)
	}
	if r := next(); r.WatchId != 1 || len(r.Events) != 1 || string(r.Events[0].Kv.Key) != "k2" {
		t.Fatalf("at the compact revision: %v", r)
	}
	if r := next(); r.WatchId != 1 || len(r.Events) != 0 || r.Header.Revision != last {
		t.Fatalf("nobody said how far the idle watch is: %v", r)
	}
	create(prefix(&pb.WatchCreateRequest{StartRevision: 2}))
	for r := next(); ; r = next() {
		if r.WatchId == 2 && r.Canceled {
			if r.CompactRevision != last {
				t.Fatalf("%v", r)
			}
			return
		}
	}
}
