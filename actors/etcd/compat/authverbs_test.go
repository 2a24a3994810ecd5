package compat

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// guardedVerb is a request that is asked as several users.
type guardedVerb struct {
	name string
	call func(ctx context.Context, c *grpc.ClientConn) (proto.Message, error)
}

func kvVerb(name string, call func(context.Context, pb.KVClient) (proto.Message, error)) guardedVerb {
	return guardedVerb{name, func(ctx context.Context, c *grpc.ClientConn) (proto.Message, error) {
		m, err := call(ctx, pb.NewKVClient(c))
		if err != nil {
			return nil, err
		}
		return m, nil
	}}
}

func rangeVerb(name, key, end string) guardedVerb {
	return kvVerb(name, func(ctx context.Context, kv pb.KVClient) (proto.Message, error) {
		return kv.Range(ctx, &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)})
	})
}

func putVerb(name string, p *pb.PutRequest) guardedVerb {
	return kvVerb(name, func(ctx context.Context, kv pb.KVClient) (proto.Message, error) { return kv.Put(ctx, p) })
}

func deleteVerb(name string, d *pb.DeleteRangeRequest) guardedVerb {
	return kvVerb(name, func(ctx context.Context, kv pb.KVClient) (proto.Message, error) { return kv.DeleteRange(ctx, d) })
}

func txnVerb(name string, compare string, ops ...*pb.RequestOp) guardedVerb {
	return kvVerb(name, func(ctx context.Context, kv pb.KVClient) (proto.Message, error) {
		return kv.Txn(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{{Key: []byte(compare), Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: -1}}},
			Success: ops,
		})
	})
}

func opPut(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte("t")}}}
}

func opGet(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(key)}}}
}

func opDelete(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
}

// watchVerb creates a watch; that it was refused is its error.
func watchKeys(name, key, end string) guardedVerb {
	return guardedVerb{name, func(ctx context.Context, c *grpc.ClientConn) (proto.Message, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := pb.NewWatchClient(c).Watch(ctx)
		if err != nil {
			return nil, err
		}
		err = s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte(key), RangeEnd: []byte(end)}}})
		if err != nil {
			return nil, err
		}
		r, err := s.Recv()
		switch {
		case err != nil:
			return nil, err
		case !r.Created:
			return nil, errors.New("not created")
		case r.Canceled:
			return nil, errors.New(r.CancelReason)
		}
		return r, nil
	}}
}

func leaseVerb(name string, call func(context.Context, pb.LeaseClient) (proto.Message, error)) guardedVerb {
	return guardedVerb{name, func(ctx context.Context, c *grpc.ClientConn) (proto.Message, error) {
		return call(ctx, pb.NewLeaseClient(c))
	}}
}

func maintenanceVerb(name string, call func(context.Context, pb.MaintenanceClient) (proto.Message, error)) guardedVerb {
	return guardedVerb{name, func(ctx context.Context, c *grpc.ClientConn) (proto.Message, error) {
		return call(ctx, pb.NewMaintenanceClient(c))
	}}
}

func clusterVerb(name string, call func(context.Context, pb.ClusterClient) (proto.Message, error)) guardedVerb {
	return guardedVerb{name, func(ctx context.Context, c *grpc.ClientConn) (proto.Message, error) {
		return call(ctx, pb.NewClusterClient(c))
	}}
}

func adminVerb(name string, call authCall) guardedVerb {
	return guardedVerb{name, func(ctx context.Context, c *grpc.ClientConn) (proto.Message, error) {
		return call(ctx, pb.NewAuthClient(c))
	}}
}

// guardedVerbs are asked by ann, who may read and write below /w/, bob, who may read there,
// carl, who may nothing, nobody, somebody with a forged token, and root.
var guardedVerbs = []guardedVerb{
	rangeVerb("get", "/w/1", ""),
	rangeVerb("get of others", "/other", ""),
	rangeVerb("a prefix", "/w/", "/w0"),
	rangeVerb("a prefix in a prefix", "/w/a", "/w/b"),
	rangeVerb("more than the prefix", "/w/", "/w1"),
	rangeVerb("everything", "\x00", "\x00"),
	rangeVerb("from the prefix on", "/w/", "\x00"),
	putVerb("put", &pb.PutRequest{Key: []byte("/w/1"), Value: []byte("v")}),
	putVerb("put with the value before", &pb.PutRequest{Key: []byte("/w/1"), Value: []byte("v"), PrevKv: true}),
	putVerb("put of others", &pb.PutRequest{Key: []byte("/other/1"), Value: []byte("v")}),
	putVerb("put on others' lease", &pb.PutRequest{Key: []byte("/w/1"), Lease: 77}),
	putVerb("put off the lease", &pb.PutRequest{Key: []byte("/w/1"), Value: []byte("v")}),
	deleteVerb("delete", &pb.DeleteRangeRequest{Key: []byte("/w/2")}),
	deleteVerb("delete with the values before", &pb.DeleteRangeRequest{Key: []byte("/w/2"), PrevKv: true}),
	deleteVerb("delete of others", &pb.DeleteRangeRequest{Key: []byte("/other/2")}),
	deleteVerb("delete of more than the prefix", &pb.DeleteRangeRequest{Key: []byte("/w/"), RangeEnd: []byte("/x")}),
	txnVerb("txn", "/w/1", opPut("/w/1"), opGet("/w/1")),
	txnVerb("txn that reads", "/w/1", opGet("/w/1")),
	txnVerb("txn that compares others'", "/other", opPut("/w/1")),
	txnVerb("txn that reads others'", "/w/1", opPut("/w/1"), opGet("/other")),
	txnVerb("txn that puts others'", "/w/1", opPut("/other/1")),
	txnVerb("txn that deletes others'", "/w/1", opDelete("/other/1")),
	txnVerb("txn in a txn that puts others'", "/w/1", &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{opPut("/other/1")}}}}),
	watchKeys("watch", "/w/1", ""),
	watchKeys("watch a prefix", "/w/", "/w0"),
	watchKeys("watch others", "/other", ""),
	watchKeys("watch everything", "\x00", "\x00"),
	leaseVerb("grant a lease", func(ctx context.Context, l pb.LeaseClient) (proto.Message, error) {
		return l.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 600})
	}),
	leaseVerb("what is left of others' lease", func(ctx context.Context, l pb.LeaseClient) (proto.Message, error) {
		return l.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: 77})
	}),
	leaseVerb("the keys of others' lease", func(ctx context.Context, l pb.LeaseClient) (proto.Message, error) {
		return l.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: 77, Keys: true})
	}),
	leaseVerb("leases", func(ctx context.Context, l pb.LeaseClient) (proto.Message, error) {
		return l.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	}),
	leaseVerb("keep others' lease alive", func(ctx context.Context, l pb.LeaseClient) (proto.Message, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := l.LeaseKeepAlive(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.Send(&pb.LeaseKeepAliveRequest{ID: 77}); err != nil {
			return nil, err
		}
		return s.Recv()
	}),
	leaseVerb("revoke others' lease", func(ctx context.Context, l pb.LeaseClient) (proto.Message, error) {
		if _, err := l.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 77}); err != nil {
			return nil, err
		}
		return &pb.LeaseRevokeResponse{}, nil
	}),
	kvVerb("compact", func(ctx context.Context, kv pb.KVClient) (proto.Message, error) {
		r, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("/w/1")})
		if err != nil {
			return nil, err
		}
		return kv.Compact(ctx, &pb.CompactionRequest{Revision: r.Header.Revision})
	}),
	maintenanceVerb("status", func(ctx context.Context, m pb.MaintenanceClient) (proto.Message, error) {
		return m.Status(ctx, &pb.StatusRequest{})
	}),
	maintenanceVerb("hash", func(ctx context.Context, m pb.MaintenanceClient) (proto.Message, error) {
		return m.Hash(ctx, &pb.HashRequest{})
	}),
	maintenanceVerb("hashkv", func(ctx context.Context, m pb.MaintenanceClient) (proto.Message, error) {
		return m.HashKV(ctx, &pb.HashKVRequest{})
	}),
	maintenanceVerb("defragment", func(ctx context.Context, m pb.MaintenanceClient) (proto.Message, error) {
		return m.Defragment(ctx, &pb.DefragmentRequest{})
	}),
	maintenanceVerb("alarms", func(ctx context.Context, m pb.MaintenanceClient) (proto.Message, error) {
		return m.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
	}),
	maintenanceVerb("disarm", func(ctx context.Context, m pb.MaintenanceClient) (proto.Message, error) {
		return m.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE})
	}),
	maintenanceVerb("snapshot", func(ctx context.Context, m pb.MaintenanceClient) (proto.Message, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := m.Snapshot(ctx, &pb.SnapshotRequest{})
		if err != nil {
			return nil, err
		}
		return s.Recv()
	}),
	maintenanceVerb("move the lead", func(ctx context.Context, m pb.MaintenanceClient) (proto.Message, error) {
		return m.MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: 12345})
	}),
	clusterVerb("members", func(ctx context.Context, c pb.ClusterClient) (proto.Message, error) {
		return c.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
	}),
	clusterVerb("remove no member", func(ctx context.Context, c pb.ClusterClient) (proto.Message, error) {
		return c.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 12345})
	}),
	clusterVerb("promote no member", func(ctx context.Context, c pb.ClusterClient) (proto.Message, error) {
		return c.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: 12345})
	}),
	clusterVerb("update no member", func(ctx context.Context, c pb.ClusterClient) (proto.Message, error) {
		return c.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: 12345, PeerURLs: []string{"http://127.0.0.1:1"}})
	}),
	adminVerb("user add", userAdd("dora", "dorapassword")),
	adminVerb("user get ann", userGet("ann")),
	adminVerb("user get of nobody", userGet("nobody")),
	adminVerb("user list", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.UserList(ctx, &pb.AuthUserListRequest{})
	}),
	adminVerb("role list", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.RoleList(ctx, &pb.AuthRoleListRequest{})
	}),
	adminVerb("role get writer", roleGet("writer")),
	adminVerb("role get nothing", roleGet("nothing")),
	adminVerb("grant", grantPermission("reader", authpb.Permission_READ, "/w/", "/w0")),
	adminVerb("grant role", grantRole("carl", "nothing")),
	adminVerb("auth status", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.AuthStatus(ctx, &pb.AuthStatusRequest{})
	}),
	adminVerb("enable again", enable),
	adminVerb("delete root's role", roleDelete("root")),
	adminVerb("user delete root", userDelete("root")),
	adminVerb("revoke root's role", func(ctx context.Context, a pb.AuthClient) (proto.Message, error) {
		return a.UserRevokeRole(ctx, &pb.AuthUserRevokeRoleRequest{Name: "root", Role: "root"})
	}),
}
