package etcd

import (
	"context"
	"fmt"
	"net/url"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/messages"
)

// clusterServer is etcd's Cluster service, on the node's operator. A member's ID is its
// replica id; its peer URLs are its addresses for Raft and for peers, in this order.
type clusterServer struct {
	*Server
	pb.UnsafeClusterServer
}

// MemberList lists the members. Without linearizable it works without a quorum.
func (s *clusterServer) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	m, err := s.members(ctx, !r.Linearizable)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.MemberListResponse{Header: s.bareHeader(), Members: s.memberList(m)}, nil
}

func (s *Server) members(ctx context.Context, local bool) (*messages.MembersReply, error) {
	return s.operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_Members{Members: &messages.MembersRequest{Local: local}}})
}

// operate asks the operator for a change of the members, which answers with all of them.
func (s *Server) operate(ctx context.Context, r *messages.AdminRequest) (*messages.MembersReply, error) {
	a, err := s.sessions.admin(ctx, r)
	if err != nil {
		return nil, err
	}
	return a.GetMembers(), nil
}

func (s *Server) memberList(m *messages.MembersReply) []*pb.Member {
	self := s.cfg.Facts().ReplicaID
	list := make([]*pb.Member, len(m.GetMembers()))
	for i, x := range m.GetMembers() {
		one := &pb.Member{ID: x.ReplicaId, Name: fmt.Sprintf("replica-%d", x.ReplicaId), IsLearner: !x.Voting}
		for _, a := range []string{x.GetAddress().GetRaft(), x.GetAddress().GetPeer()} {
			if a != "" {
				one.PeerURLs = append(one.PeerURLs, "http://"+a)
			}
		}
		at := x.GetAddress().GetEtcd()
		if x.ReplicaId == self {
			at = s.cfg.URL // a node alone tells itself nothing
		}
		if at != "" {
			one.ClientURLs = []string{at}
		}
		list[i] = one
	}
	return list
}

// MemberAdd adds a member. Its URLs are where it will listen for Raft, for peers, and for
// clients of ours, in this order; the last may be missing. Its process is started
// afterwards, with the id that is answered.
func (s *clusterServer) MemberAdd(ctx context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	if err := s.mayAdminister(ctx); err != nil {
		return nil, toStatus(err)
	}
	if len(r.PeerURLs) < 2 || len(r.PeerURLs) > 3 {
		return nil, status.Error(codes.InvalidArgument, rpctypes.ErrGRPCMemberBadURLs.Error()+
			": a member needs the URLs of its addresses for Raft, for peers and, if it has one, for clients, in this order")
	}
	hosts := make([]string, 3)
	for i, raw := range r.PeerURLs {
		u, err := url.Parse(raw)
		if err != nil || u.Port() == "" {
			return nil, rpctypes.ErrGRPCMemberBadURLs
		}
		hosts[i] = u.Host
	}
	m, err := s.members(ctx, false)
	if err != nil {
		return nil, toStatus(err)
	}
	id := uint64(1)
	for _, x := range m.GetMembers() {
		if x.GetAddress().GetRaft() == hosts[0] {
			return nil, rpctypes.ErrGRPCPeerURLExist
		}
		id = max(id, x.ReplicaId+1)
	}
	for _, gone := range m.GetRemoved() {
		id = max(id, gone+1)
	}
	m, err = s.operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_AddMember{AddMember: &messages.AddMemberRequest{
		Address:   &messages.MemberAddress{ReplicaId: id, Raft: hosts[0], Peer: hosts[1], Client: hosts[2]},
		NonVoting: r.IsLearner,
	}}})
	if err != nil {
		return nil, memberStatus(err)
	}
	resp := &pb.MemberAddResponse{Header: s.bareHeader(), Members: s.memberList(m)}
	for _, x := range resp.Members {
		if x.ID == id {
			resp.Member = x
		}
	}
	return resp, nil
}

// MemberRemove removes a member for good.
func (s *clusterServer) MemberRemove(ctx context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	if _, err := s.memberToChange(ctx, r.ID); err != nil {
		return nil, toStatus(err)
	}
	m, err := s.operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_RemoveMember{RemoveMember: &messages.RemoveMemberRequest{ReplicaId: r.ID}}})
	if err != nil {
		return nil, memberStatus(err)
	}
	return &pb.MemberRemoveResponse{Header: s.bareHeader(), Members: s.memberList(m)}, nil
}

// member returns a member, or etcd's refusal of an id that is none.
func (s *Server) member(ctx context.Context, id uint64) (*messages.Member, error) {
	m, err := s.members(ctx, false)
	if err != nil {
		return nil, err
	}
	for _, x := range m.GetMembers() {
		if x.ReplicaId == id {
			return x, nil
		}
	}
	return nil, rpctypes.ErrGRPCMemberNotFound
}

// memberToChange is member for who may change it.
func (s *Server) memberToChange(ctx context.Context, id uint64) (*messages.Member, error) {
	if err := s.mayAdminister(ctx); err != nil {
		return nil, err
	}
	return s.member(ctx, id)
}

// MemberPromote gives a learner a vote, once it has caught up.
func (s *clusterServer) MemberPromote(ctx context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	switch x, err := s.memberToChange(ctx, r.ID); {
	case err != nil:
		return nil, toStatus(err)
	case x.Voting:
		return nil, rpctypes.ErrGRPCMemberNotLearner
	}
	m, err := s.operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_PromoteMember{PromoteMember: &messages.PromoteMemberRequest{ReplicaId: r.ID}}})
	if err != nil {
		if refused(err, messages.Code_CODE_NOT_READY) || refused(err, messages.Code_CODE_INVALID_ARGUMENT) {
			// It is a learner, as was seen above: what is wrong is that it is behind or not heard.
			return nil, rpctypes.ErrGRPCLearnerNotReady
		}
		return nil, memberStatus(err)
	}
	return &pb.MemberPromoteResponse{Header: s.bareHeader(), Members: s.memberList(m)}, nil
}

// MemberUpdate is accepted when it says what is so already: members tell each other their
// addresses themselves, and that for Raft cannot change.
func (s *clusterServer) MemberUpdate(ctx context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	x, err := s.memberToChange(ctx, r.ID)
	if err != nil {
		return nil, toStatus(err)
	}
	for _, raw := range r.PeerURLs {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			return nil, rpctypes.ErrGRPCMemberBadURLs
		}
		if a := x.GetAddress(); u.Host != a.GetRaft() && u.Host != a.GetPeer() && u.Host != a.GetClient() {
			return nil, status.Error(codes.FailedPrecondition,
				"etcdserver: a member's address for Raft cannot change: add another member and remove this one; its other addresses are learnt from itself")
		}
	}
	m, err := s.members(ctx, false)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.MemberUpdateResponse{Header: s.bareHeader(), Members: s.memberList(m)}, nil
}

// memberStatus returns a refusal of the operator in etcd's words where it has some.
func memberStatus(err error) error {
	switch messages.CodeOf(err) {
	case messages.Code_CODE_NO_QUORUM:
		return rpctypes.ErrGRPCMemberNotEnoughStarted
	case messages.Code_CODE_INVALID_ARGUMENT:
		return status.Error(codes.FailedPrecondition, "etcdserver: "+err.Error())
	}
	return toStatus(err)
}
