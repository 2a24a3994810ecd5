package etcd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/concord-kv/concord/messages"
)

// leaseServer is etcd's Lease service.
type leaseServer struct {
	*Server
	pb.UnsafeLeaseServer
}

// ttlMax is etcd's limit of a TTL, in seconds. Ours is ten years: what lies between is
// granted ten years.
const ttlMax = 9_000_000_000

// LeaseGrant grants a lease. A TTL below the least that the cluster allows is raised to
// it, in whole seconds.
func (s *leaseServer) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	switch {
	case r.TTL > ttlMax:
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	case r.ID > leaseBase || r.ID < 0:
		return nil, rpctypes.ErrGRPCLeaseExist // ids of leases without a chosen one
	}
	ttl, err := s.ttl(ctx, r.TTL)
	if err != nil {
		return nil, toStatus(err)
	}
	result, err := s.sessions.write(ctx, &messages.Write{Op: &messages.Write_GrantLease{GrantLease: &messages.GrantLease{
		TtlMs: ttl * 1000, Alias: uint64(r.ID),
	}}})
	if err != nil {
		return nil, toStatus(err)
	}
	g := result.GetGrantLease()
	if r.ID != 0 {
		s.leases.learn(uint64(r.ID), g.GetLeaseId())
	}
	return &pb.LeaseGrantResponse{Header: s.header(result.Revision), ID: s.leases.name(g.GetLeaseId()), TTL: g.GetTtlMs() / 1000}, nil
}

// ttl returns the seconds that are granted of those asked for. The limits are the
// cluster's; most TTLs lie so well within them that nobody has to be asked.
func (s *Server) ttl(ctx context.Context, asked int64) (int64, error) {
	const surelyEnough, surelyNotTooMuch = 60, 30 * 24 * 3600
	if asked >= surelyEnough && asked <= surelyNotTooMuch {
		return asked, nil
	}
	q, err := s.sessions.query(ctx, &messages.Query{
		Consistency: messages.Consistency_CONSISTENCY_STALE, Query: &messages.Query_Config{Config: &messages.ConfigRequest{}},
	})
	if err != nil {
		return 0, err
	}
	cfg := q.GetConfig().GetConfig()
	least := (cfg.GetLeaseTtlMinMs() + 999) / 1000
	return min(max(asked, least), cfg.GetLeaseTtlMaxMs()/1000), nil
}

// LeaseRevoke ends a lease; its keys go at one revision.
func (s *leaseServer) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	result, err := s.onLeases(func(fresh bool) (*messages.Result, error) {
		id, err := s.explicit(ctx, r.ID, fresh)
		if err != nil {
			return nil, err
		}
		return s.sessions.write(ctx, &messages.Write{Op: &messages.Write_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: id}}})
	})
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.LeaseRevokeResponse{Header: s.header(result.Revision)}, nil
}

// explicit resolves the id of a request about a lease: 0 is none.
func (s *Server) explicit(ctx context.Context, id int64, fresh bool) (uint64, error) {
	if id == 0 {
		return neverLease, nil
	}
	return s.leases.resolve(ctx, id, fresh)
}

// keepAlivesMax is how many keep-alives of one stream may be under way.
const keepAlivesMax = 256

// LeaseKeepAlive renews leases as they are named, and answers in their order. A lease
// that is gone is answered with a TTL of 0.
func (s *leaseServer) LeaseKeepAlive(stream grpc.BidiStreamingServer[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]) error {
	ctx := stream.Context()
	type renewal struct {
		id     int64
		answer chan renewed
	}
	pending := make(chan renewal, keepAlivesMax)
	received := make(chan error, 1)
	go func() {
		defer close(pending)
		for {
			r, err := stream.Recv()
			if err != nil {
				received <- err
				return
			}
			one := renewal{r.ID, make(chan renewed, 1)}
			select {
			case pending <- one:
			case <-ctx.Done():
				received <- ctx.Err()
				return
			}
			s.renew(ctx, r.ID, one.answer)
		}
	}()
	for {
		var (
			one  renewal
			a    renewed
			more bool
		)
		select {
		case one, more = <-pending:
		case <-ctx.Done():
			return toStatus(ctx.Err())
		}
		if !more {
			break
		}
		select {
		case a = <-one.answer:
		case <-ctx.Done():
			return toStatus(ctx.Err())
		}
		if a.err != nil {
			return toStatus(clientOf(ctx).refusal(a.err))
		}
		if err := stream.Send(&pb.LeaseKeepAliveResponse{Header: s.header(a.revision), ID: one.id, TTL: a.ttl}); err != nil {
			return err
		}
	}
	if err := <-received; !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

type renewed struct {
	revision uint64
	ttl      int64
	err      error
}

// renew begins to keep a lease alive; the answer comes on the channel. Renewals are sent
// in the order of the calls.
func (s *Server) renew(ctx context.Context, id int64, answer chan<- renewed) {
	ours, err := s.explicit(ctx, id, false)
	if err != nil {
		answer <- renewed{err: err}
		return
	}
	c, err := s.sessions.get(ctx)
	if err != nil {
		answer <- renewed{err: err}
		return
	}
	call, reply, err := c.start(keepAliveOf(ours))
	if err != nil {
		answer <- renewed{err: err}
		return
	}
	go func() {
		result, err := resultOf(c.wait(ctx, call, reply))
		if refused(err, messages.Code_CODE_LEASE_NOT_FOUND) && id < leaseBase {
			if ours, err = s.explicit(ctx, id, true); err == nil {
				result, err = resultOf(c.do(ctx, keepAliveOf(ours)))
			}
		}
		if refused(err, messages.Code_CODE_LEASE_NOT_FOUND) {
			answer <- renewed{revision: s.cfg.Facts().Revision}
			return
		}
		answer <- renewed{revision: result.GetRevision(), ttl: result.GetKeepAliveLease().GetTtlMs() / 1000, err: err}
	}()
}

func keepAliveOf(id uint64) *messages.Operation {
	return &messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
		Op: &messages.Write_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{LeaseId: id}},
	}}}
}

// LeaseTimeToLive tells what is left of a lease; TTL -1 when it is gone, also when its end
// has not been applied yet.
func (s *leaseServer) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	reply, err := s.leaseInfo(ctx, r.ID, r.Keys)
	if err != nil && !refused(err, messages.Code_CODE_LEASE_NOT_FOUND) {
		return nil, toStatus(err)
	}
	l := reply.GetLeaseInfo().GetLease()
	if l.GetRemainingTtlMs() <= 0 {
		return &pb.LeaseTimeToLiveResponse{Header: s.header(s.cfg.Facts().Revision), ID: r.ID, TTL: -1}, nil
	}
	return &pb.LeaseTimeToLiveResponse{
		Header: s.header(reply.Revision), ID: r.ID, TTL: l.RemainingTtlMs / 1000, GrantedTTL: l.TtlMs / 1000, Keys: l.Keys,
	}, nil
}

// leaseInfo asks about a lease that etcd's side calls id.
func (s *Server) leaseInfo(ctx context.Context, id int64, keys bool) (*messages.QueryReply, error) {
	q := &messages.LeaseInfoRequest{Keys: keys}
	switch {
	case id > leaseBase:
		q.LeaseId = uint64(id - leaseBase)
	case id > 0:
		q.Alias = uint64(id)
	default:
		q.LeaseId = neverLease
	}
	return s.sessions.query(ctx, &messages.Query{Query: &messages.Query_LeaseInfo{LeaseInfo: q}})
}

// LeaseLeases lists the leases, those that end first at the front, but for the unnamed
// ones of single keys and those of the nodes themselves.
func (s *leaseServer) LeaseLeases(ctx context.Context, _ *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	var all []*messages.LeaseInfo
	q := &messages.LeaseListRequest{Limit: messages.ListLimitMax}
	var revision uint64
	for {
		reply, err := s.sessions.query(ctx, &messages.Query{Query: &messages.Query_LeaseList{LeaseList: q}})
		if err != nil {
			return nil, toStatus(err)
		}
		revision = reply.Revision
		page := reply.GetLeaseList()
		all = append(all, page.Leases...)
		if !page.HasMore || len(page.Leases) == 0 {
			break
		}
		q = &messages.LeaseListRequest{Limit: q.Limit, AfterLeaseId: page.Leases[len(page.Leases)-1].Id}
	}
	slices.SortStableFunc(all, func(a, b *messages.LeaseInfo) int {
		return int(min(max(a.RemainingTtlMs-b.RemainingTtlMs, math.MinInt32), math.MaxInt32))
	})
	resp := &pb.LeaseLeasesResponse{Header: s.header(revision)}
	for _, l := range all {
		if !ofNode(l) {
			resp.Leases = append(resp.Leases, &pb.LeaseStatus{ID: s.leases.ofInfo(l)})
		}
	}
	return resp, nil
}

// ofNode says that a lease is a node's own, under which it reports how far its watches are.
func ofNode(l *messages.LeaseInfo) bool {
	for _, e := range l.GetMetadata() {
		if e.GetName() == "node" && bytes.HasPrefix(e.GetValue(), []byte("watches of replica ")) {
			return true
		}
	}
	return false
}
