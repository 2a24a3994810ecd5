package etcd

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/actors/etcd/recipepb"
	"github.com/concord-kv/concord/messages"
)

// recipes are etcd's Lock and Election services. They write the keys that etcd's own do,
// so that clients which bring the recipes along meet them in one queue: NAME/LEASE, the
// oldest of which holds.
type recipes struct {
	*Server
	kv *kvServer
}

// sessionTTL is that of a lease which a request without one is given.
const sessionTTL = 60

var (
	errSessionExpired   = status.Error(codes.Unknown, "mutex: session is expired")
	errNotLeader        = status.Error(codes.Unknown, "election: not leader")
	errNoLeader         = status.Error(codes.Unknown, "election: no leader")
	errMissingLeaderKey = status.Error(codes.Unknown, `"leader" field must be provided`)
)

// header returns etcd's header as these services have it.
func recipeHeader(h *pb.ResponseHeader) *recipepb.Header {
	return &recipepb.Header{ClusterId: h.GetClusterId(), MemberId: h.GetMemberId(), Revision: h.GetRevision(), RaftTerm: h.GetRaftTerm()}
}

func recipeKV(kv *mvccpb.KeyValue) *recipepb.KeyValue {
	return &recipepb.KeyValue{
		Key: kv.Key, Value: kv.Value, Version: kv.Version, Lease: kv.Lease, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
	}
}

// place is one's own key in a queue.
type place struct {
	prefix, key []byte
	rev         int64 // its create revision
	lease       int64
}

// lineUp puts one's key into a queue, unless it is there, and returns who is first.
func (s *recipes) lineUp(ctx context.Context, name []byte, lease int64, value []byte) (*place, *pb.TxnResponse, error) {
	if lease == 0 {
		g, err := (&leaseServer{Server: s.Server}).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: sessionTTL})
		if err != nil {
			return nil, nil, err
		}
		lease = g.ID
	}
	p := &place{prefix: append(append([]byte(nil), name...), '/'), lease: lease}
	p.key = fmt.Appendf(append([]byte(nil), p.prefix...), "%x", lease)
	first := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
		Key: p.prefix, RangeEnd: prefixEnd(p.prefix), SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND, Limit: 1,
	}}}
	resp, err := s.kv.Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: p.key, Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{}}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: p.key, Value: value, Lease: lease}}}, first},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: p.key}}}, first},
	})
	if err != nil {
		return nil, nil, err
	}
	p.rev = resp.Header.Revision
	if !resp.Succeeded {
		p.rev = resp.Responses[0].GetResponseRange().Kvs[0].CreateRevision
	}
	return p, resp, nil
}

// prefixEnd is the end of the keys that begin with a prefix that ends in a slash.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	end[len(end)-1]++
	return end
}

// awaitTurn waits until every older key of the queue is gone.
func (s *recipes) awaitTurn(ctx context.Context, p *place) error {
	for {
		resp, err := s.kv.Range(ctx, &pb.RangeRequest{
			Key: p.prefix, RangeEnd: prefixEnd(p.prefix), MaxCreateRevision: p.rev - 1,
			SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_DESCEND, Limit: 1, KeysOnly: true,
		})
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 0 {
			return nil
		}
		if err := s.awaitDelete(ctx, resp.Kvs[0].Key, resp.Header.Revision); err != nil {
			return err
		}
	}
}

// awaitDelete waits until a key that existed at a revision is deleted.
func (s *recipes) awaitDelete(ctx context.Context, key []byte, revision int64) error {
	return s.await(ctx, &messages.Selector{By: &messages.Selector_Key{Key: key}}, revision+1, messages.EventType_EVENT_TYPE_DELETE)
}

// await waits for an event of these types at a revision of etcd's or later; it watches on
// a connection of its own. If history is gone that would tell, it returns at once: the
// caller looks again.
func (s *recipes) await(ctx context.Context, sel *messages.Selector, from int64, types ...messages.EventType) error {
	happened := make(chan *messages.ErrorDetail, 1)
	tell := func(end *messages.ErrorDetail) {
		select {
		case happened <- end:
		default: // it knows already
		}
	}
	c, err := s.sessions.open(ctx, clientOf(ctx), func(m *messages.ServerMessage) {
		switch {
		case m.GetWatchEnd() != nil:
			tell(m.GetWatchEnd().GetReason())
		case len(m.GetWatchBatch().GetEvents()) > 0:
			tell(nil)
		}
	})
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.do(ctx, &messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{
		WatchId: 1, Selector: sel, FromRevision: uint64(max(1, from-1)), Types: types,
	}}})
	if refused(err, messages.Code_CODE_COMPACTED) {
		return nil
	}
	if err != nil {
		return err
	}
	select {
	case end := <-happened:
		if end.GetCode() == messages.Code_CODE_COMPACTED {
			return nil
		}
		return messages.ErrorFrom(end)
	case <-c.done:
		return c.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave deletes one's own key, also when the call is over.
func (s *recipes) leave(ctx context.Context, p *place) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if _, err := s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: p.key}); err != nil {
		s.cfg.Logger.Warn("etcd endpoint: a place in a queue stays until its lease ends", "error", err)
	}
}

// Lock waits for a lock and returns the key that stands for it.
func (s *recipes) Lock(ctx context.Context, r *recipepb.LockRequest) (*recipepb.LockResponse, error) {
	p, resp, err := s.lineUp(ctx, r.Name, r.Lease, nil)
	if err != nil {
		return nil, err
	}
	header := resp.Header
	if first := resp.Responses[1].GetResponseRange().Kvs; len(first) > 0 && first[0].CreateRevision != p.rev {
		if err := s.awaitTurn(ctx, p); err != nil {
			s.leave(ctx, p)
			return nil, toStatus(err)
		}
		// The lease may have ended while we waited.
		mine, err := s.kv.Range(ctx, &pb.RangeRequest{Key: p.key})
		if err != nil {
			s.leave(ctx, p)
			return nil, err
		}
		if len(mine.Kvs) == 0 {
			return nil, errSessionExpired
		}
		header = mine.Header
	}
	return &recipepb.LockResponse{Header: recipeHeader(header), Key: p.key}, nil
}

// Unlock gives a lock up.
func (s *recipes) Unlock(ctx context.Context, r *recipepb.UnlockRequest) (*recipepb.UnlockResponse, error) {
	resp, err := s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: r.Key})
	if err != nil {
		return nil, err
	}
	return &recipepb.UnlockResponse{Header: recipeHeader(resp.Header)}, nil
}
