package etcd_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/actors/node"
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
