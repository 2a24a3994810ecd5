package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/concord-kv/concord/messages"
)

// kvServer is etcd's KV service.
type kvServer struct {
	*Server
	pb.UnsafeKVServer
}

// Put stores one key.
func (s *kvServer) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := checkPut(r); err != nil {
		return nil, err
	}
	result, err := s.onLeases(func(fresh bool) (*messages.Result, error) {
		put, err := s.putOf(ctx, r, fresh)
		if err != nil {
			return nil, err
		}
		return s.sessions.write(ctx, &messages.Write{Op: &messages.Write_Put{Put: put}})
	})
	if err != nil {
		return nil, toStatus(s.leaseFirst(ctx, err, []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: r}}}))
	}
	return &pb.PutResponse{Header: s.header(result.Revision), PrevKv: s.keyValue(result.GetPut().GetPrev())}, nil
}

// onLeases does what names leases, and once more if a lease that was known by a chosen id
// is gone: the id may have been given to another lease since.
func (s *Server) onLeases(do func(fresh bool) (*messages.Result, error)) (*messages.Result, error) {
	r, err := do(false)
	if refused(err, messages.Code_CODE_UNKNOWN_LEASE) || refused(err, messages.Code_CODE_LEASE_NOT_FOUND) {
		return do(true)
	}
	return r, err
}

// leaseFirst says of a put that is refused because its key does not exist that its lease
// does not, if that is so too: etcd looks at the lease first. ops are those of the branch
// that ran.
func (s *Server) leaseFirst(ctx context.Context, err error, ops []*pb.RequestOp) error {
	if !refused(err, messages.Code_CODE_KEY_NOT_FOUND) {
		return err
	}
	i := int(messages.DetailOf(err).GetOpIndex())
	if i >= len(ops) || ops[i].GetRequestPut().GetLease() == 0 {
		return err
	}
	if _, gone := s.leaseInfo(ctx, ops[i].GetRequestPut().Lease, false); refused(gone, messages.Code_CODE_LEASE_NOT_FOUND) {
		return gone
	}
	return err
}

// putOf returns a put as our sessions know it.
func (s *Server) putOf(ctx context.Context, r *pb.PutRequest, fresh bool) (*messages.Put, error) {
	p := &messages.Put{
		Key: r.Key, Value: r.Value, PrevKv: r.PrevKv, IgnoreValue: r.IgnoreValue, IgnoreLease: r.IgnoreLease,
	}
	if r.IgnoreLease {
		return p, s.keepNote(ctx, p)
	}
	if r.Lease == 0 {
		return p, nil
	}
	var err error
	if p.LeaseId, err = s.leases.resolve(ctx, r.Lease, fresh); err != nil {
		return nil, err
	}
	p.MoveLease, p.Metadata = true, note(p.LeaseId, r.Lease)
	return p, nil
}

// keepNote gives a put that keeps its key's lease the note that goes with that lease. If
// the key moves to another lease meanwhile, the note does not fit it and does not count.
func (s *Server) keepNote(ctx context.Context, p *messages.Put) error {
	q, err := s.sessions.query(ctx, &messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: p.Key}}})
	if err != nil {
		return err
	}
	if rec := q.GetGet().GetRecord(); rec.GetLeaseId() != 0 {
		p.Metadata = note(rec.LeaseId, s.leases.ofRecord(rec))
	}
	return nil
}

// DeleteRange deletes the keys of a range at one revision.
func (s *kvServer) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := checkDelete(r); err != nil {
		return nil, err
	}
	sel, empty := selectorOf(r.Key, r.RangeEnd)
	if empty {
		resp, rev, err := s.read(ctx, &pb.RangeRequest{Key: r.Key, RangeEnd: r.RangeEnd}, 0)
		if err != nil {
			return nil, toStatus(err)
		}
		return &pb.DeleteRangeResponse{Header: s.header(rev), Deleted: resp.Count}, nil
	}
	result, err := s.sessions.write(ctx, &messages.Write{Op: &messages.Write_Delete{Delete: &messages.Delete{Selector: sel, PrevKv: r.PrevKv}}})
	if err != nil {
		return nil, toStatus(err)
	}
	d := result.GetDelete()
	return &pb.DeleteRangeResponse{Header: s.header(result.Revision), Deleted: int64(d.GetDeleted()), PrevKvs: s.keyValues(d.GetPrev())}, nil
}

// Compact moves the compact revision to exactly the one asked for. Memory is freed in the
// background, with physical too: nothing that was compacted can be read from now on.
func (s *kvServer) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	if r.Revision <= 1 {
		// Revision 1 is the empty store: there is nothing before it to forget.
		q, err := s.sessions.query(ctx, &messages.Query{Query: &messages.Query_Revision{Revision: &messages.RevisionRequest{}}})
		switch {
		case err != nil:
			return nil, toStatus(err)
		case q.CompactRevision > 0 || r.Revision < 0:
			return nil, rpctypes.ErrGRPCCompacted
		}
		return &pb.CompactionResponse{Header: s.header(q.Revision)}, nil
	}
	result, err := s.sessions.write(ctx, &messages.Write{Op: &messages.Write_Compact{Compact: &messages.Compact{Revision: uint64(r.Revision - 1), Exact: true}}})
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.CompactionResponse{Header: s.header(result.Revision)}, nil
}
