package etcd_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/state"
)

func TestMain(m *testing.M) {
	node.InstallLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// endpoint is a node's, and a connection to it.
type endpoint struct {
	t    *testing.T
	ctx  context.Context
	node *node.Node
	conn *grpc.ClientConn
	kv   pb.KVClient
}

func start(t *testing.T) *endpoint {
	t.Helper()
	n, err := node.Start(node.Config{Dir: t.TempDir(), Etcd: &node.Etcd{Address: "127.0.0.1:0", ProgressInterval: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	e := &endpoint{t: t, ctx: ctx, node: n, conn: connect(t, n.EtcdAddr())}
	e.kv = pb.NewKVClient(e.conn)
	t.Cleanup(func() {
		cancel()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func connect(t *testing.T, address string) *grpc.ClientConn {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (e *endpoint) put(key, value string) *pb.PutResponse {
	e.t.Helper()
	r, err := e.kv.Put(e.ctx, &pb.PutRequest{Key: []byte(key), Value: []byte(value), PrevKv: true})
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

func (e *endpoint) get(r *pb.RangeRequest) *pb.RangeResponse {
	e.t.Helper()
	a, err := e.kv.Range(e.ctx, r)
	if err != nil {
		e.t.Fatal(err)
	}
	return a
}

// TestRevisions: an empty store is at 1, the first put at 2, and compaction is exact.
func TestRevisions(t *testing.T) {
	e := start(t)
	if r := e.get(&pb.RangeRequest{Key: []byte("k")}); r.Header.Revision != 1 || r.Count != 0 {
		t.Fatalf("empty: %v", r)
	}
	if r := e.put("k", "1"); r.Header.Revision != 2 || r.PrevKv != nil {
		t.Fatalf("first put: %v", r)
	}
	if r := e.put("k", "2"); r.Header.Revision != 3 || string(r.PrevKv.Value) != "1" || r.PrevKv.ModRevision != 2 {
		t.Fatalf("second put: %v", r)
	}
	if r := e.get(&pb.RangeRequest{Key: []byte("k"), Revision: 2}); string(r.Kvs[0].Value) != "1" || r.Header.Revision != 3 {
		t.Fatalf("at 2: %v", r)
	}
	if r := e.get(&pb.RangeRequest{Key: []byte("k"), Revision: 1}); r.Count != 0 {
		t.Fatalf("at 1: %v", r)
	}
	if _, err := e.kv.Compact(e.ctx, &pb.CompactionRequest{Revision: 3}); err != nil {
		t.Fatal(err)
	}
	for revision, want := range map[int64]error{1: rpctypes.ErrGRPCCompacted, 2: rpctypes.ErrGRPCCompacted, 4: rpctypes.ErrGRPCFutureRev} {
		if _, err := e.kv.Range(e.ctx, &pb.RangeRequest{Key: []byte("k"), Revision: revision}); err == nil || err.Error() != want.Error() {
			t.Errorf("at %d: %v, want %v", revision, err, want)
		}
	}
	e.get(&pb.RangeRequest{Key: []byte("k"), Revision: 3})
}

// TestRefusals: the codes and texts that etcd's clients know.
func TestRefusals(t *testing.T) {
	e := start(t)
	key := []byte("k")
	txn := func(ops ...*pb.RequestOp) error {
		_, err := e.kv.Txn(e.ctx, &pb.TxnRequest{Success: ops})
		return err
	}
	put := func(p *pb.PutRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: p}}
	}
	del := func(d *pb.DeleteRangeRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: d}}
	}
	many := make([]*pb.RequestOp, 129)
	for i := range many {
		many[i] = put(&pb.PutRequest{Key: fmt.Append(nil, i)})
	}
	lease := pb.NewLeaseClient(e.conn)
	for name, c := range map[string]struct{ got, want error }{
		"empty key":           {txn(put(&pb.PutRequest{})), rpctypes.ErrGRPCEmptyKey},
		"value and keep":      {txn(put(&pb.PutRequest{Key: key, Value: key, IgnoreValue: true})), rpctypes.ErrGRPCValueProvided},
		"lease and keep":      {txn(put(&pb.PutRequest{Key: key, Lease: 1, IgnoreLease: true})), rpctypes.ErrGRPCLeaseProvided},
		"keep of no key":      {txn(put(&pb.PutRequest{Key: key, IgnoreValue: true})), rpctypes.ErrGRPCKeyNotFound},
		"no such lease":       {txn(put(&pb.PutRequest{Key: key, Lease: 77})), rpctypes.ErrGRPCLeaseNotFound},
		"a key twice":         {txn(put(&pb.PutRequest{Key: key}), put(&pb.PutRequest{Key: key})), rpctypes.ErrGRPCDuplicateKey},
		"a key put, deleted":  {txn(put(&pb.PutRequest{Key: key}), del(&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("z")})), rpctypes.ErrGRPCDuplicateKey},
		"too many operations": {txn(many...), rpctypes.ErrGRPCTooManyOps},
		"revoke of no lease":  {second(lease.LeaseRevoke(e.ctx, &pb.LeaseRevokeRequest{ID: 5})), rpctypes.ErrGRPCLeaseNotFound},
		"too long a ttl":      {second(lease.LeaseGrant(e.ctx, &pb.LeaseGrantRequest{TTL: 9_000_000_001})), rpctypes.ErrGRPCLeaseTTLTooLarge},
		"bad order":           {second(e.kv.Range(e.ctx, &pb.RangeRequest{Key: key, SortOrder: 7})), rpctypes.ErrGRPCInvalidSortOption},
		"too large a value":   {second(e.kv.Put(e.ctx, &pb.PutRequest{Key: key, Value: make([]byte, 2<<20)})), rpctypes.ErrGRPCRequestTooLarge},
	} {
		if g, w := status.Convert(c.got), status.Convert(c.want); g.Code() != w.Code() || g.Message() != w.Message() {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if r := e.get(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}); r.Header.Revision != 1 {
		t.Errorf("a refusal has left something: %v", r)
	}
}

func second[T any](_ T, err error) error { return err }

// TestLargeRange: an answer is put together of pages, all of one revision; a stream of it
// too.
func TestLargeRange(t *testing.T) {
	e := start(t)
	const n = 1_300
	value := bytes.Repeat([]byte("x"), 1_000) // more than one page by size as well
	for i := 0; i < n; i += 100 {
		var ops []*pb.RequestOp
		for j := i; j < i+100; j++ {
			ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: fmt.Appendf(nil, "k%05d", j), Value: value}}})
		}
		if _, err := e.kv.Txn(e.ctx, &pb.TxnRequest{Success: ops}); err != nil {
			t.Fatal(err)
		}
	}
	all := &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}
	if r := e.get(all); len(r.Kvs) != n || r.Count != n || r.More {
		t.Fatalf("%d keys, count %d, more %v", len(r.Kvs), r.Count, r.More)
	}
	limited := &pb.RangeRequest{Key: all.Key, RangeEnd: all.RangeEnd, Limit: 1_200, SortOrder: pb.RangeRequest_DESCEND}
	if r := e.get(limited); len(r.Kvs) != 1_200 || r.Count != n || !r.More || string(r.Kvs[0].Key) != "k01299" {
		t.Fatalf("limited: %d keys, count %d, more %v", len(r.Kvs), r.Count, r.More)
	}
	stream, err := e.kv.RangeStream(e.ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	got, parts := 0, 0
	for {
		r, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += len(r.RangeResponse.Kvs)
		parts++
		if h := r.RangeResponse.Header; h != nil && (r.RangeResponse.Count != n || got != n) {
			t.Fatalf("the last part says %d of %d", r.RangeResponse.Count, got)
		}
	}
	if got != n || parts < 2 {
		t.Fatalf("%d keys in %d parts", got, parts)
	}
	// A range inside a transaction that the transaction itself cannot answer: it sees the
	// writes before it.
	r, err := e.kv.Txn(e.ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k00000"), Value: []byte("new")}}},
		{Request: &pb.RequestOp_RequestRange{RequestRange: all}},
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k00001"), Value: []byte("later")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	kvs := r.Responses[1].GetResponseRange().Kvs
	if len(kvs) != n || string(kvs[0].Value) != "new" || kvs[0].Version != 2 || string(kvs[1].Value) != string(value) {
		t.Fatalf("inside: %d keys, %q, %q", len(kvs), kvs[0].Value[:3], kvs[1].Value[:3])
	}
}

// TestNested: nested transactions are decided by the state before all of them.
func TestNested(t *testing.T) {
	e := start(t)
	e.put("a", "1")
	is := func(key, value string) []*pb.Compare {
		return []*pb.Compare{{Key: []byte(key), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte(value)}}}
	}
	put := func(key, value string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(value)}}}
	}
	nested := func(r *pb.TxnRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
	}
	r, err := e.kv.Txn(e.ctx, &pb.TxnRequest{
		Compare: is("a", "1"),
		Success: []*pb.RequestOp{
			put("b", "1"),
			nested(&pb.TxnRequest{Compare: is("b", "1"), Success: []*pb.RequestOp{put("c", "wrong")}, Failure: []*pb.RequestOp{put("c", "right")}}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Succeeded || r.Responses[1].GetResponseTxn().Succeeded || r.Header.Revision != 3 {
		t.Fatalf("%v", r)
	}
	if got := e.get(&pb.RangeRequest{Key: []byte("c")}).Kvs[0]; string(got.Value) != "right" || got.ModRevision != 3 {
		t.Fatalf("%v", got)
	}
}

// TestLeases: chosen ids, one put moves a key to another lease, history keeps the names.
func TestLeases(t *testing.T) {
	e := start(t)
	lease := pb.NewLeaseClient(e.conn)
	grant := func(id int64) int64 {
		t.Helper()
		r, err := lease.LeaseGrant(e.ctx, &pb.LeaseGrantRequest{TTL: 600, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	if id := grant(7); id != 7 {
		t.Fatalf("a chosen id became %d", id)
	}
	if _, err := lease.LeaseGrant(e.ctx, &pb.LeaseGrantRequest{TTL: 600, ID: 7}); err == nil || err.Error() != rpctypes.ErrGRPCLeaseExist.Error() {
		t.Fatal(err)
	}
	other := grant(0)
	for _, id := range []int64{7, other} {
		if _, err := e.kv.Put(e.ctx, &pb.PutRequest{Key: []byte("k"), Lease: id}); err != nil {
			t.Fatal(err)
		}
		if kv := e.get(&pb.RangeRequest{Key: []byte("k")}).Kvs[0]; kv.Lease != id || kv.CreateRevision != 2 {
			t.Fatalf("on lease %d: %v", id, kv)
		}
	}
	for id, keys := range map[int64]int{7: 0, other: 1} {
		r, err := lease.LeaseTimeToLive(e.ctx, &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
		if err != nil || len(r.Keys) != keys || r.GrantedTTL != 600 || r.TTL < 590 {
			t.Fatalf("lease %d: %v %v", id, r, err)
		}
	}
	if _, err := lease.LeaseRevoke(e.ctx, &pb.LeaseRevokeRequest{ID: 7}); err != nil {
		t.Fatal(err)
	}
	// Granted again, the id is another lease; a node that knew the old one notices.
	grant(7)
	if _, err := e.kv.Put(e.ctx, &pb.PutRequest{Key: []byte("again"), Lease: 7}); err != nil {
		t.Fatal(err)
	}
	if kv := e.get(&pb.RangeRequest{Key: []byte("k"), Revision: 2}).Kvs[0]; kv.Lease != 7 {
		t.Fatalf("history has forgotten what the lease was called: %v", kv)
	}
	ka, err := lease.LeaseKeepAlive(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{7, 12345, other} {
		if err := ka.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct{ id, ttl int64 }{{7, 600}, {12345, 0}, {other, 600}} {
		if r, err := ka.Recv(); err != nil || r.ID != want.id || r.TTL != want.ttl {
			t.Fatalf("%v %v, want %v", r, err, want)
		}
	}
}

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

// TestHTTP: JSON, health and locks come over HTTP on the same port.
func TestHTTP(t *testing.T) {
	e := start(t)
	call := func(path, body string) map[string]any {
		t.Helper()
		var (
			r   *http.Response
			err error
		)
		if url := "http://" + e.node.EtcdAddr() + path; body == "" {
			r, err = http.Get(url)
		} else {
			r, err = http.Post(url, "application/json", strings.NewReader(body))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		answer := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		answer["status"] = r.StatusCode
		return answer
	}
	if a := call("/v3/kv/put", `{"key":"Zm9v","value":"YmFy"}`); a["header"].(map[string]any)["revision"] != "2" {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/kv/range", `{"key":"Zm9v"}`); a["count"] != "1" {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/kv/range", `{}`); a["status"] != http.StatusBadRequest || a["message"] != "etcdserver: key is not provided" {
		t.Fatalf("%v", a)
	}
	if a := call("/health", ""); a["health"] != "true" {
		t.Fatalf("%v", a)
	}
	if a := call("/version", ""); a["etcdserver"] == "" {
		t.Fatalf("%v", a)
	}
	a := call("/v3/lock/lock", `{"name":"bG9jaw=="}`)
	key, _ := a["key"].(string)
	if key == "" {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/lock/unlock", `{"key":"`+key+`"}`); a["status"] != http.StatusOK {
		t.Fatalf("%v", a)
	}
	a = call("/v3/election/campaign", `{"name":"Ym9zcw==","value":"bWU="}`)
	if a["leader"] == nil {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/election/leader", `{"name":"Ym9zcw=="}`); a["kv"].(map[string]any)["value"] != "bWU=" {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/election/leader", `{"name":"bm9ib2R5"}`); a["message"] != "election: no leader" {
		t.Fatalf("%v", a)
	}
	h, err := healthpb.NewHealthClient(e.conn).Check(metadata.AppendToOutgoingContext(e.ctx, "hasleader", "true"), &healthpb.HealthCheckRequest{})
	if err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v %v", h, err)
	}
}

// TestSnapshot: what a client saves has the form that etcd's client wants, and what is in
// it loads.
func TestSnapshot(t *testing.T) {
	e := start(t)
	for i := range 100 {
		e.put(fmt.Sprint("k", i), "v")
	}
	stream, err := pb.NewMaintenanceClient(e.conn).Snapshot(e.ctx, &pb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for {
		r, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Blob...)
	}
	if len(all)%512 != sha256.Size {
		t.Fatalf("%d bytes", len(all))
	}
	body := all[:len(all)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], all[len(body):]) {
		t.Fatal("the checksum is not that of the rest")
	}
	m, err := state.Load(bytes.NewReader(body[:binary.BigEndian.Uint64(body[len(body)-8:])]))
	if err != nil || m.Revision() != 100 {
		t.Fatalf("%v", err)
	}
}

// TestStop: a node that stops ends streams with an error after which clients go elsewhere.
func TestStop(t *testing.T) {
	e := start(t)
	watch, err := pb.NewWatchClient(e.conn).Watch(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = watch.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || !r.Created {
		t.Fatalf("%v %v", r, err)
	}
	alive, err := pb.NewLeaseClient(e.conn).LeaseKeepAlive(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := alive.Send(&pb.LeaseKeepAliveRequest{ID: 1}); err != nil {
		t.Fatal(err)
	}
	if r, err := alive.Recv(); err != nil || r.TTL != 0 {
		t.Fatalf("%v %v", r, err)
	}
	if err := e.node.Close(); err != nil {
		t.Fatal(err)
	}
	_, watchErr := watch.Recv()
	_, aliveErr := alive.Recv()
	for name, err := range map[string]error{"watch": watchErr, "keep-alive": aliveErr} {
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
