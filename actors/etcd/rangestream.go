package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/messages"
)

// RangeStream answers a range page by page, all at one revision. The last message says
// how many keys there are and whether there are more; it alone has a header.
func (s *kvServer) RangeStream(r *pb.RangeRequest, stream grpc.ServerStreamingServer[pb.RangeStreamResponse]) error {
	if err := checkRange(r); err != nil {
		return err
	}
	if r.SortOrder != pb.RangeRequest_NONE && (!byKey(r) || r.SortOrder != pb.RangeRequest_ASCEND) {
		return status.Error(codes.Unimplemented, "RangeStream does not support custom sort orders")
	}
	if hasFilters(r) {
		return status.Error(codes.Unimplemented, "RangeStream does not support revision filters")
	}
	ctx := stream.Context()
	sel, empty := selectorOf(r.Key, r.RangeEnd)
	_, one := sel.GetBy().(*messages.Selector_Key)
	if r.CountOnly || one || empty || r.Revision == 1 {
		resp, rev, err := s.read(ctx, r, 0)
		if err != nil {
			return toStatus(err)
		}
		resp.Header = s.header(rev)
		return stream.Send(&pb.RangeStreamResponse{RangeResponse: resp})
	}
	p := &paging{server: s.Server, consistency: messages.Consistency_CONSISTENCY_LINEARIZABLE}
	if r.Serializable {
		p.consistency = messages.Consistency_CONSISTENCY_STALE
	}
	p.request = listOf(r, sel, uint64(max(0, r.Revision-1)))
	return toStatus(p.stream(r, stream))
}

// stream sends the pages of a range as they are read.
func (p *paging) stream(r *pb.RangeRequest, stream grpc.ServerStreamingServer[pb.RangeStreamResponse]) error {
	ctx := stream.Context()
	sent := int64(0)
	for {
		want := int64(messages.ListLimitDefault)
		if r.Limit > 0 {
			want = min(want, r.Limit-sent)
		}
		l, err := p.page(ctx, want)
		if err != nil {
			return err
		}
		sent += int64(len(l.Records))
		resp := &pb.RangeResponse{Kvs: p.server.keyValues(l.Records)}
		onlyKeys(r, resp.Kvs...)
		last := !l.HasMore || r.Limit > 0 && sent >= r.Limit
		if last {
			resp.Header, resp.Count, resp.More = p.server.header(p.revision), sent, l.HasMore
			if l.HasMore {
				rest, err := p.count(ctx, l.LastKey)
				if err != nil {
					return err
				}
				resp.Count += rest
			}
		}
		if err := stream.Send(&pb.RangeStreamResponse{RangeResponse: resp}); err != nil || last {
			return err
		}
	}
}
