package etcd

import (
	"context"
	"hash/crc32"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/concord-kv/concord/messages"
)

// maintenanceServer is etcd's Maintenance service.
type maintenanceServer struct {
	*Server
	pb.UnsafeMaintenanceServer
}

// apiVersion is the release of etcd whose API this is.
const apiVersion = "3.7.0"

// Status tells about this node. Sizes are logical bytes: what the quota counts.
func (s *maintenanceServer) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	q, err := s.status(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	f := s.cfg.Facts()
	st := q.GetStatus()
	resp := &pb.StatusResponse{
		Header: s.header(q.Revision), Version: version.Version, StorageVersion: apiVersion,
		Leader: f.LeaderID, RaftTerm: f.RaftTerm, RaftIndex: st.GetAppliedIndex(), RaftAppliedIndex: st.GetAppliedIndex(),
		DbSize: int64(st.GetLogicalBytes()), DbSizeInUse: int64(st.GetLogicalBytes()), DbSizeQuota: int64(st.GetQuotaBytes()),
		DowngradeInfo: &pb.DowngradeInfo{},
	}
	if f.LeaderID == 0 {
		resp.Errors = append(resp.Errors, "etcdserver: no leader")
	}
	if m, err := s.members(ctx, true); err == nil {
		for _, x := range m.GetMembers() {
			resp.IsLearner = resp.IsLearner || x.ReplicaId == f.ReplicaID && !x.Voting
		}
	}
	for _, a := range alarmsOf(f.ReplicaID, st) {
		resp.Errors = append(resp.Errors, a.String())
	}
	return resp, nil
}

func (s *Server) status(ctx context.Context) (*messages.QueryReply, error) {
	return s.sessions.query(ctx, &messages.Query{
		Consistency: messages.Consistency_CONSISTENCY_STALE, Query: &messages.Query_Status{Status: &messages.StatusRequest{}},
	})
}

// alarmsOf returns the alarms: NOSPACE while the quota refuses puts. It clears by itself.
func alarmsOf(member uint64, st *messages.StatusReply) []*pb.AlarmMember {
	if st.GetQuotaBytes() == 0 || st.GetLogicalBytes() < st.GetQuotaBytes() {
		return nil
	}
	return []*pb.AlarmMember{{MemberID: member, Alarm: pb.AlarmType_NOSPACE}}
}

// Alarm tells the alarms. They follow from the state: one that is deactivated while its
// reason lasts stays, and none can be raised by hand.
func (s *maintenanceServer) Alarm(ctx context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	if r.Action != pb.AlarmRequest_GET {
		if err := s.mayAdminister(ctx); err != nil {
			return nil, toStatus(err)
		}
	}
	q, err := s.status(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	f := s.cfg.Facts()
	resp := &pb.AlarmResponse{Header: s.header(q.Revision)}
	switch r.Action {
	case pb.AlarmRequest_ACTIVATE:
		return nil, status.Error(codes.Unimplemented, "etcdserver: alarms cannot be raised by hand")
	case pb.AlarmRequest_DEACTIVATE:
		return resp, nil
	}
	for _, a := range alarmsOf(f.ReplicaID, q.GetStatus()) {
		if r.Alarm == pb.AlarmType_NONE || r.Alarm == a.Alarm {
			resp.Alarms = append(resp.Alarms, a)
		}
	}
	return resp, nil
}

// Defragment does nothing: memory is reused as it becomes free, and snapshots on disk
// hold no holes.
func (s *maintenanceServer) Defragment(ctx context.Context, _ *pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	if err := s.mayAdminister(ctx); err != nil {
		return nil, toStatus(err)
	}
	s.cfg.Logger.Info("etcd endpoint: there is nothing to defragment")
	return &pb.DefragmentResponse{Header: s.bareHeader()}, nil
}

// Hash returns a checksum of the state of this node, all of it, as of what it has applied.
func (s *maintenanceServer) Hash(ctx context.Context, _ *pb.HashRequest) (*pb.HashResponse, error) {
	if err := s.mayAdminister(ctx); err != nil {
		return nil, toStatus(err)
	}
	q, err := s.status(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	d := q.GetStatus().GetDigest()
	return &pb.HashResponse{Header: s.header(q.Revision), Hash: uint32(d) ^ uint32(d>>32)}, nil
}

// HashKV returns a checksum of the keys as they were at a revision, 0 for the latest. It
// reads this node's own copy: members that hold the same answer the same.
func (s *maintenanceServer) HashKV(ctx context.Context, r *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	if err := s.mayAdminister(ctx); err != nil {
		return nil, toStatus(err)
	}
	q, err := s.status(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	at := q.Revision
	if r.Revision > 0 {
		at = uint64(r.Revision - 1)
	}
	if at > q.Revision {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	if at < q.CompactRevision || r.Revision == 1 && q.CompactRevision > 0 {
		return nil, rpctypes.ErrGRPCCompacted
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if at > 0 {
		if err := s.hashKeys(ctx, at, sum); err != nil {
			return nil, toStatus(err)
		}
	}
	resp := &pb.HashKVResponse{Header: s.header(q.Revision), Hash: sum.Sum32(), HashRevision: outRevision(at), CompactRevision: -1}
	if q.CompactRevision > 0 {
		resp.CompactRevision = outRevision(q.CompactRevision)
	}
	return resp, nil
}

// hashKeys writes every key at a revision, with all that belongs to it.
func (s *Server) hashKeys(ctx context.Context, at uint64, to io.Writer) error {
	p := &paging{
		server: s, consistency: messages.Consistency_CONSISTENCY_STALE,
		request: &messages.ListRequest{Selector: &messages.Selector{By: &messages.Selector_Prefix{}}, Revision: at},
	}
	var b []byte
	for {
		l, err := p.page(ctx, messages.ListLimitMax)
		if err != nil {
			return err
		}
		for _, r := range l.Records {
			b = protowire.AppendBytes(b[:0], r.Key)
			b = protowire.AppendBytes(b, r.Value)
			for _, n := range []uint64{r.CreateRevision, r.ModRevision, r.Version, r.LeaseId} {
				b = protowire.AppendVarint(b, n)
			}
			if _, err := to.Write(b); err != nil {
				return err
			}
		}
		if !l.HasMore {
			return nil
		}
	}
}

// MoveLeader hands the lead over; only the leader takes the request.
func (s *maintenanceServer) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	if err := s.mayAdminister(ctx); err != nil {
		return nil, toStatus(err)
	}
	f := s.cfg.Facts()
	if f.LeaderID != f.ReplicaID {
		return nil, rpctypes.ErrGRPCNotLeader
	}
	x, err := s.member(ctx, r.TargetID)
	if err != nil || !x.Voting {
		return nil, rpctypes.ErrGRPCBadLeaderTransferee
	}
	_, err = s.operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_MoveLeader{MoveLeader: &messages.MoveLeaderRequest{ReplicaId: r.TargetID}}})
	if err != nil {
		return nil, memberStatus(err)
	}
	return &pb.MoveLeaderResponse{Header: s.bareHeader()}, nil
}

// Downgrade is not possible: nodes have no older format of etcd's to go back to.
func (s *maintenanceServer) Downgrade(ctx context.Context, _ *pb.DowngradeRequest) (*pb.DowngradeResponse, error) {
	if err := s.mayAdminister(ctx); err != nil {
		return nil, toStatus(err)
	}
	return nil, status.Error(codes.Unimplemented, "etcdserver: this is not a version of etcd that could be downgraded")
}
