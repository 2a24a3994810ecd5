package etcd_test

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

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
