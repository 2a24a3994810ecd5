package etcd_test

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// rights are the users who may do something.
type rights struct{ ann, bob bool }

var (
	reads    = rights{ann: true, bob: true}
	writes   = rights{ann: true}
	rootOnly = rights{}
)

type rightsCase struct {
	name string
	who  rights
	call func(ctx context.Context, c *grpc.ClientConn) error
}

func op(r any) *pb.RequestOp {
	switch x := r.(type) {
	case *pb.RangeRequest:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: x}}
	case *pb.PutRequest:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: x}}
	case *pb.DeleteRangeRequest:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: x}}
	}
	return nil
}

// txnCase compares a key and does operations; whether a compare holds would tell what is
// there, so it is a read, also one that always holds.
func txnCase(name string, who rights, compare *pb.Compare, ops ...any) rightsCase {
	return rightsCase{name, who, func(ctx context.Context, c *grpc.ClientConn) error {
		r := &pb.TxnRequest{}
		if compare != nil {
			r.Compare = []*pb.Compare{compare}
		}
		for _, o := range ops {
			r.Success = append(r.Success, op(o))
		}
		return second(pb.NewKVClient(c).Txn(ctx, r))
	}}
}

var (
	own    = &pb.PutRequest{Key: []byte("/ann/1")}
	others = []byte("/other")
	always = &pb.Compare{Key: others, Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: -1}}
	beyond = &pb.Compare{Key: []byte("/ann/1"), RangeEnd: []byte{0}, Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: 3}}
)

func watchError(ctx context.Context, c *grpc.ClientConn, r *pb.WatchCreateRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := pb.NewWatchClient(c).Watch(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
		return err
	}
	a, err := s.Recv()
	switch {
	case err != nil || !a.Canceled:
		return err
	case a.CancelReason == rpctypes.ErrGRPCPermissionDenied.Error():
		return rpctypes.ErrGRPCPermissionDenied
	}
	return errors.New(a.CancelReason)
}

// rightsCases are asked by ann, by bob and by nobody. Root may do all of it.
var rightsCases = []rightsCase{
	{"get", reads, func(ctx context.Context, c *grpc.ClientConn) error { return getError(ctx, c, "/ann/1") }},
	{"get of others", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error { return getError(ctx, c, "/other") }},
	{"a range beyond", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		return second(pb.NewKVClient(c).Range(ctx, &pb.RangeRequest{Key: []byte("/ann/"), RangeEnd: []byte{0}}))
	}},
	{"a stream of a range", reads, func(ctx context.Context, c *grpc.ClientConn) error {
		s, err := pb.NewKVClient(c).RangeStream(ctx, &pb.RangeRequest{Key: []byte("/ann/"), RangeEnd: []byte("/ann0")})
		if err != nil {
			return err
		}
		return second(s.Recv())
	}},
	{"put", writes, func(ctx context.Context, c *grpc.ClientConn) error { return putError(ctx, c, "/ann/1") }},
	{"put of others", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error { return putError(ctx, c, "/other") }},
	{"delete", writes, func(ctx context.Context, c *grpc.ClientConn) error {
		return second(pb.NewKVClient(c).DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("/ann/2")}))
	}},
	{"delete of others", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		return second(pb.NewKVClient(c).DeleteRange(ctx, &pb.DeleteRangeRequest{Key: others}))
	}},
	txnCase("txn", writes, nil, own, &pb.RangeRequest{Key: own.Key}),
	txnCase("txn that reads", reads, nil, &pb.RangeRequest{Key: own.Key}),
	txnCase("txn that reads others'", rootOnly, nil, own, &pb.RangeRequest{Key: others}),
	txnCase("txn that deletes others'", rootOnly, nil, own, &pb.DeleteRangeRequest{Key: others}),
	txnCase("txn that compares others'", rootOnly, always, own),
	txnCase("txn that compares a range beyond", rootOnly, beyond, own),
	{"watch", reads, func(ctx context.Context, c *grpc.ClientConn) error {
		return watchError(ctx, c, &pb.WatchCreateRequest{Key: []byte("/ann/"), RangeEnd: []byte("/ann0")})
	}},
	{"watch of others", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		return watchError(ctx, c, &pb.WatchCreateRequest{Key: others})
	}},
	{"a lease of one's own", writes, func(ctx context.Context, c *grpc.ClientConn) error {
		l := pb.NewLeaseClient(c)
		r, err := l.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 600})
		if err == nil {
			_, err = l.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: r.ID})
		}
		if err == nil {
			_, err = pb.NewKVClient(c).Put(ctx, &pb.PutRequest{Key: own.Key, Lease: r.ID})
		}
		if err == nil {
			_, err = l.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: r.ID})
		}
		return err
	}},
	{"keep others' lease alive", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		s, err := pb.NewLeaseClient(c).LeaseKeepAlive(ctx)
		if err != nil {
			return err
		}
		if err := s.Send(&pb.LeaseKeepAliveRequest{ID: 7}); err != nil {
			return err
		}
		return second(s.Recv())
	}},
	{"compact", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		return second(pb.NewKVClient(c).Compact(ctx, &pb.CompactionRequest{Revision: 2}))
	}},
	{"hash", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		return second(pb.NewMaintenanceClient(c).HashKV(ctx, &pb.HashKVRequest{}))
	}},
	{"defragment", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		return second(pb.NewMaintenanceClient(c).Defragment(ctx, &pb.DefragmentRequest{}))
	}},
	{"snapshot", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := pb.NewMaintenanceClient(c).Snapshot(ctx, &pb.SnapshotRequest{})
		if err != nil {
			return err
		}
		return second(s.Recv())
	}},
	{"users", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		return second(pb.NewAuthClient(c).UserList(ctx, &pb.AuthUserListRequest{}))
	}},
	{"user add", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		return second(pb.NewAuthClient(c).UserAdd(ctx, &pb.AuthUserAddRequest{Name: "new", Password: "newpassword"}))
	}},
	{"member remove", rootOnly, func(ctx context.Context, c *grpc.ClientConn) error {
		err := second(pb.NewClusterClient(c).MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 77}))
		if same(err, rpctypes.ErrGRPCMemberNotFound) {
			return nil // it may, though there is none
		}
		return err
	}},
}

// TestRights: each verb is allowed and denied as the users' permissions say.
func TestRights(t *testing.T) {
	g := startGuarded(t)
	g.enable()
	root := g.with(g.token)
	g.must(pb.NewLeaseClient(g.nobody).LeaseGrant(root, &pb.LeaseGrantRequest{TTL: 600, ID: 7}))
	g.must(pb.NewKVClient(g.nobody).Put(root, &pb.PutRequest{Key: others, Lease: 7}))
	for _, c := range rightsCases {
		for user, may := range map[string]bool{"ann": c.who.ann, "bob": c.who.bob} {
			want := rpctypes.ErrGRPCPermissionDenied
			if may {
				want = nil
			}
			if got := c.call(g.ctx, map[string]*grpc.ClientConn{"ann": g.ann, "bob": g.bob}[user]); !same(got, want) {
				t.Errorf("%s as %s: %v, want %v", c.name, user, got, want)
			}
		}
		if got := c.call(g.ctx, g.nobody); got == nil {
			t.Errorf("%s as nobody: it was done", c.name)
		}
		if got := c.call(root, g.nobody); got != nil {
			t.Errorf("%s as root: %v", c.name, got)
		}
	}
}
