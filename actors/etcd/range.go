package etcd

import (
	"bytes"
	"context"
	"math"
	"sort"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/concord-kv/concord/messages"
)

// Range answers from one revision, however many keys there are.
func (s *kvServer) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := checkRange(r); err != nil {
		return nil, err
	}
	resp, rev, err := s.read(ctx, r, 0)
	if err != nil {
		return nil, toStatus(err)
	}
	resp.Header = s.header(rev)
	return resp, nil
}

// read answers a range without its header. It also returns the store's revision, of
// ours. With a pin the latest is that revision, which this node is known to have.
func (s *Server) read(ctx context.Context, r *pb.RangeRequest, pin uint64) (*pb.RangeResponse, uint64, error) {
	consistency := messages.Consistency_CONSISTENCY_LINEARIZABLE
	if r.Serializable || pin != 0 {
		consistency = messages.Consistency_CONSISTENCY_STALE
	}
	at := pin
	switch {
	case r.Revision == 1:
		return s.readEmpty(ctx, consistency)
	case r.Revision > 1:
		at = uint64(r.Revision - 1)
	}
	sel, empty := selectorOf(r.Key, r.RangeEnd)
	if empty {
		// Nothing can be there, but the revision is checked and told.
		sel = &messages.Selector{By: &messages.Selector_Key{Key: r.Key}}
	}
	if _, one := sel.GetBy().(*messages.Selector_Key); one {
		q, err := s.sessions.query(ctx, &messages.Query{
			Consistency: consistency,
			Query:       &messages.Query_Get{Get: &messages.GetRequest{Key: r.Key, Revision: at}},
		})
		if err != nil {
			return nil, 0, err
		}
		resp := &pb.RangeResponse{}
		if rec := q.GetGet().GetRecord(); rec != nil && !empty {
			resp.Count = 1
			if kv := s.keyValue(rec); !r.CountOnly && !filtered(r, kv) {
				onlyKeys(r, kv)
				resp.Kvs = []*mvccpb.KeyValue{kv}
			}
		}
		return resp, q.Revision, nil
	}
	p := &paging{server: s, request: listOf(r, sel, at), consistency: consistency}
	resp, err := p.collect(ctx, r)
	return resp, p.revision, err
}

// readEmpty answers for revision 1, where a store has no keys.
func (s *Server) readEmpty(ctx context.Context, consistency messages.Consistency) (*pb.RangeResponse, uint64, error) {
	q, err := s.sessions.query(ctx, &messages.Query{Consistency: consistency, Query: &messages.Query_Revision{Revision: &messages.RevisionRequest{}}})
	if err != nil {
		return nil, 0, err
	}
	if q.CompactRevision > 0 {
		return nil, 0, rpctypes.ErrGRPCCompacted
	}
	return &pb.RangeResponse{}, q.Revision, nil
}

// filtered says that the request's bounds of revisions leave a key out.
func filtered(r *pb.RangeRequest, kv *mvccpb.KeyValue) bool {
	return r.MaxModRevision != 0 && kv.ModRevision > r.MaxModRevision ||
		r.MinModRevision != 0 && kv.ModRevision < r.MinModRevision ||
		r.MaxCreateRevision != 0 && kv.CreateRevision > r.MaxCreateRevision ||
		r.MinCreateRevision != 0 && kv.CreateRevision < r.MinCreateRevision
}

func hasFilters(r *pb.RangeRequest) bool {
	return r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
}

// byKey says that the answer's order is that of a list, upwards or downwards.
func byKey(r *pb.RangeRequest) bool {
	return r.SortTarget == pb.RangeRequest_KEY
}

// none says that the request's bounds leave every key out: the first revision of a key
// is 2.
func none(r *pb.RangeRequest) bool {
	out := func(low, high int64) bool { return high != 0 && high < max(low, 2) }
	return out(r.MinModRevision, r.MaxModRevision) || out(r.MinCreateRevision, r.MaxCreateRevision)
}

// listOf returns the list that reads the range's keys, at one of our revisions.
func listOf(r *pb.RangeRequest, sel *messages.Selector, at uint64) *messages.ListRequest {
	bound := func(x int64) uint64 { return uint64(max(0, x-1)) }
	return &messages.ListRequest{
		Selector: sel, Revision: at,
		KeysOnly:       r.KeysOnly && r.SortTarget != pb.RangeRequest_VALUE,
		Descending:     byKey(r) && r.SortOrder == pb.RangeRequest_DESCEND,
		ModRevisionMin: bound(r.MinModRevision), ModRevisionMax: bound(r.MaxModRevision),
		CreateRevisionMin: bound(r.MinCreateRevision), CreateRevisionMax: bound(r.MaxCreateRevision),
	}
}

// paging reads a list page by page at one revision.
type paging struct {
	server      *Server
	request     *messages.ListRequest
	consistency messages.Consistency
	revision    uint64 // the store's, when the first page was read
	began       bool
}

// page reads the next page, of at most limit records.
func (p *paging) page(ctx context.Context, limit int64) (*messages.ListReply, error) {
	p.request.Limit = uint32(min(limit, messages.ListLimitMax))
	q, err := p.server.sessions.query(ctx, &messages.Query{Consistency: p.consistency, Query: &messages.Query_List{List: p.request}})
	if err != nil {
		return nil, err
	}
	l := q.GetList()
	if !p.began {
		// What follows is read by this node from the same revision, which it has.
		p.began, p.revision, p.consistency = true, q.Revision, messages.Consistency_CONSISTENCY_STALE
		if l.Revision == 0 {
			return l, nil // an empty store has no second page
		}
	}
	next := *p.pageRequest()
	next.Revision, next.AfterKey = l.Revision, l.LastKey
	p.request = &next
	return l, nil
}

// pageRequest returns a copy of the request: the last one may still be read by the session.
func (p *paging) pageRequest() *messages.ListRequest {
	r := p.request
	return &messages.ListRequest{
		Selector: r.Selector, KeysOnly: r.KeysOnly, Descending: r.Descending,
		ModRevisionMin: r.ModRevisionMin, ModRevisionMax: r.ModRevisionMax,
		CreateRevisionMin: r.CreateRevisionMin, CreateRevisionMax: r.CreateRevisionMax,
	}
}

// count counts the keys of a range, whatever its filters and its limit, at the revision
// that is being read.
func (p *paging) count(ctx context.Context, after []byte) (int64, error) {
	r := &messages.ListRequest{Selector: p.request.Selector, Revision: p.request.Revision, CountOnly: true, AfterKey: after, Descending: p.request.Descending}
	q, err := p.server.sessions.query(ctx, &messages.Query{Consistency: p.consistency, Query: &messages.Query_List{List: r}})
	if err != nil {
		return 0, err
	}
	if !p.began {
		p.began, p.revision = true, q.Revision
	}
	return int64(q.GetList().GetCount()), nil
}

// collect reads what a range asks for.
func (p *paging) collect(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	resp := &pb.RangeResponse{}
	var err error
	if r.CountOnly || none(r) {
		resp.Count, err = p.count(ctx, nil)
		return resp, err
	}
	// etcd reads one more than the limit and sorts only those, unless the order was asked for.
	want, sorted := int64(math.MaxInt64), byKey(r)
	if r.Limit > 0 && (sorted || r.SortOrder == pb.RangeRequest_NONE && !hasFilters(r)) {
		want = r.Limit
		if !sorted && want < math.MaxInt64 {
			want++
		}
	}
	more := true
	for more && int64(len(resp.Kvs)) < want {
		l, err := p.page(ctx, want-int64(len(resp.Kvs)))
		if err != nil {
			return nil, err
		}
		resp.Kvs = append(resp.Kvs, p.server.keyValues(l.Records)...)
		more = l.HasMore
	}
	resp.Count = int64(len(resp.Kvs))
	switch {
	case hasFilters(r):
		resp.Count, err = p.count(ctx, nil)
	case more:
		var rest int64
		rest, err = p.count(ctx, resp.Kvs[len(resp.Kvs)-1].Key)
		resp.Count += rest
	}
	if err != nil {
		return nil, err
	}
	resp.More = more
	if !sorted {
		sortBy(resp.Kvs, r.SortTarget, r.SortOrder == pb.RangeRequest_DESCEND)
		if resp.More = r.Limit > 0 && int64(len(resp.Kvs)) > r.Limit; resp.More {
			resp.Kvs = resp.Kvs[:r.Limit]
		}
	}
	onlyKeys(r, resp.Kvs...)
	return resp, nil
}

// onlyKeys leaves out what keys_only does: the value, and, unless etcd has read the value
// to sort by it, the lease.
func onlyKeys(r *pb.RangeRequest, kvs ...*mvccpb.KeyValue) {
	if !r.KeysOnly {
		return
	}
	for _, kv := range kvs {
		kv.Value = nil
		if r.SortTarget != pb.RangeRequest_VALUE {
			kv.Lease = 0
		}
	}
}

// sortBy sorts as etcd does, with the same algorithm: keys that are equal end up in the
// same order too.
func sortBy(kvs []*mvccpb.KeyValue, by pb.RangeRequest_SortTarget, descending bool) {
	var less func(a, b *mvccpb.KeyValue) bool
	switch by {
	case pb.RangeRequest_VERSION:
		less = func(a, b *mvccpb.KeyValue) bool { return a.Version < b.Version }
	case pb.RangeRequest_CREATE:
		less = func(a, b *mvccpb.KeyValue) bool { return a.CreateRevision < b.CreateRevision }
	case pb.RangeRequest_MOD:
		less = func(a, b *mvccpb.KeyValue) bool { return a.ModRevision < b.ModRevision }
	default:
		less = func(a, b *mvccpb.KeyValue) bool { return bytes.Compare(a.Value, b.Value) < 0 }
	}
	var list sort.Interface = &sorter{kvs, less}
	if descending {
		list = sort.Reverse(list)
	}
	sort.Sort(list)
}

type sorter struct {
	kvs  []*mvccpb.KeyValue
	less func(a, b *mvccpb.KeyValue) bool
}

func (s *sorter) Len() int           { return len(s.kvs) }
func (s *sorter) Less(i, j int) bool { return s.less(s.kvs[i], s.kvs[j]) }
func (s *sorter) Swap(i, j int)      { s.kvs[i], s.kvs[j] = s.kvs[j], s.kvs[i] }
