package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/concord-kv/concord/actors/etcd/recipepb"
	"github.com/concord-kv/concord/messages"
)

// Campaign waits to be elected.
func (s *recipes) Campaign(ctx context.Context, r *recipepb.CampaignRequest) (*recipepb.CampaignResponse, error) {
	p, resp, err := s.lineUp(ctx, r.Name, r.Lease, r.Value)
	if err != nil {
		return nil, err
	}
	leader := &recipepb.LeaderKey{Name: r.Name, Key: p.key, Rev: p.rev, Lease: p.lease}
	if old := resp.Responses[0].GetResponseRange(); old != nil && string(old.Kvs[0].Value) != string(r.Value) {
		if _, err := s.Proclaim(ctx, &recipepb.ProclaimRequest{Leader: leader, Value: r.Value}); err != nil {
			return nil, err
		}
	}
	if err := s.awaitTurn(ctx, p); err != nil {
		s.leave(ctx, p)
		return nil, toStatus(err)
	}
	return &recipepb.CampaignResponse{Header: recipeHeader(resp.Header), Leader: leader}, nil
}

// held is the compare that holds while a leadership is held.
func held(l *recipepb.LeaderKey) []*pb.Compare {
	return []*pb.Compare{{
		Key: l.GetKey(), Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: l.GetRev()},
	}}
}

// Proclaim changes what the leader says, without an election.
func (s *recipes) Proclaim(ctx context.Context, r *recipepb.ProclaimRequest) (*recipepb.ProclaimResponse, error) {
	if r.Leader == nil {
		return nil, errMissingLeaderKey
	}
	resp, err := s.kv.Txn(ctx, &pb.TxnRequest{Compare: held(r.Leader), Success: []*pb.RequestOp{{
		Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: r.Leader.Key, Value: r.Value, Lease: r.Leader.Lease}},
	}}})
	if err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		return nil, errNotLeader
	}
	return &recipepb.ProclaimResponse{Header: recipeHeader(resp.Header)}, nil
}

// Resign gives a leadership up; one that is not held any more stays as it is.
func (s *recipes) Resign(ctx context.Context, r *recipepb.ResignRequest) (*recipepb.ResignResponse, error) {
	if r.Leader == nil {
		return nil, errMissingLeaderKey
	}
	resp, err := s.kv.Txn(ctx, &pb.TxnRequest{Compare: held(r.Leader), Success: []*pb.RequestOp{{
		Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: r.Leader.Key}},
	}}})
	if err != nil {
		return nil, err
	}
	return &recipepb.ResignResponse{Header: recipeHeader(resp.Header)}, nil
}

// leader returns the oldest key of an election; none without one.
func (s *recipes) leader(ctx context.Context, name []byte) (*pb.RangeResponse, error) {
	prefix := append(append([]byte(nil), name...), '/')
	return s.kv.Range(ctx, &pb.RangeRequest{
		Key: prefix, RangeEnd: prefixEnd(prefix), SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND, Limit: 1,
	})
}

// Leader tells who leads, and what it says.
func (s *recipes) Leader(ctx context.Context, r *recipepb.LeaderRequest) (*recipepb.LeaderResponse, error) {
	resp, err := s.leader(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	if len(resp.Kvs) == 0 {
		return nil, errNoLeader
	}
	return &recipepb.LeaderResponse{Header: recipeHeader(resp.Header), Kv: recipeKV(resp.Kvs[0])}, nil
}

// Observe tells of each leader, and each thing that it says, as they change. Of changes in
// quick succession the last counts.
func (s *recipes) Observe(r *recipepb.LeaderRequest, stream grpc.ServerStreamingServer[recipepb.LeaderResponse]) error {
	ctx := stream.Context()
	var told *mvccpb.KeyValue
	for {
		resp, err := s.leader(ctx, r.Name)
		if err != nil {
			return err
		}
		key, from := append(append([]byte(nil), r.Name...), '/'), resp.Header.Revision+1
		if len(resp.Kvs) > 0 {
			kv := resp.Kvs[0]
			if told == nil || kv.ModRevision != told.ModRevision || string(kv.Key) != string(told.Key) {
				told = kv
				if err := stream.Send(&recipepb.LeaderResponse{Header: recipeHeader(resp.Header), Kv: recipeKV(kv)}); err != nil {
					return err
				}
			}
			key = kv.Key
		}
		if err := s.awaitChange(ctx, key, len(resp.Kvs) == 0, from); err != nil {
			return toStatus(err)
		}
	}
}

// awaitChange waits until a key, or one below it, changes at a revision or later.
func (s *recipes) awaitChange(ctx context.Context, key []byte, below bool, from int64) error {
	sel := &messages.Selector{By: &messages.Selector_Key{Key: key}}
	if below {
		sel = &messages.Selector{By: &messages.Selector_Prefix{Prefix: key}}
	}
	return s.await(ctx, sel, from)
}
