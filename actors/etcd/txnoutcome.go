package etcd

import (
	"context"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/concord-kv/concord/messages"
)

// outcome is a transaction that has been applied, and what is needed to answer for its
// operations: the ranges that it could not answer itself are read from the revision
// before it, with its own writes on top.
type outcome struct {
	server *Server
	ops    []*pb.RequestOp
	result []*messages.TxnOpResult
	after  uint64 // the revision after it, of ours
	before uint64
	wrote  []bool // by operation
}

func (s *Server) outcome(ops []*pb.RequestOp, result *messages.Result) *outcome {
	o := &outcome{
		server: s, ops: ops, result: result.GetTxn().GetResponses(),
		after: result.Revision, before: result.Revision, wrote: make([]bool, len(ops)),
	}
	for i, op := range ops {
		o.wrote[i] = op.GetRequestPut() != nil || o.result[i].GetDelete().GetDeleted() > 0
	}
	if slices.Contains(o.wrote, true) {
		o.before--
	}
	return o
}

func (o *outcome) responses(ctx context.Context) ([]*pb.ResponseOp, error) {
	list := make([]*pb.ResponseOp, len(o.ops))
	at := o.before
	for i, op := range o.ops {
		if o.wrote[i] {
			at = o.after
		}
		header := &pb.ResponseHeader{Revision: outRevision(at)}
		switch q := op.GetRequest().(type) {
		case *pb.RequestOp_RequestRange:
			resp, err := o.rangeResponse(ctx, i, q.RequestRange)
			if err != nil {
				return nil, err
			}
			resp.Header = header
			list[i] = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: resp}}
		case *pb.RequestOp_RequestPut:
			list[i] = &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{
				Header: header, PrevKv: o.server.keyValue(o.result[i].GetPut().GetPrev()),
			}}}
		case *pb.RequestOp_RequestDeleteRange:
			d := o.result[i].GetDelete()
			list[i] = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{
				Header: header, Deleted: int64(d.GetDeleted()), PrevKvs: o.server.keyValues(d.GetPrev()),
			}}}
		}
	}
	return list, nil
}

// rangeResponse answers the range that is operation i.
func (o *outcome) rangeResponse(ctx context.Context, i int, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if _, empty := selectorOf(r.Key, r.RangeEnd); empty {
		return &pb.RangeResponse{}, nil
	}
	if direct(r) {
		if resp := o.direct(r, o.result[i].GetGet()); resp != nil {
			return resp, nil
		}
	}
	if r.Revision > 0 || !slices.Contains(o.wrote[:i], true) {
		return o.server.readAt(ctx, r, o.before)
	}
	all, err := o.server.readAt(ctx, &pb.RangeRequest{Key: r.Key, RangeEnd: r.RangeEnd}, o.before)
	if err != nil {
		return nil, err
	}
	return finish(r, o.overlay(i, r, all.Kvs)), nil
}

// direct turns the transaction's own get into the answer; nil when it is not all of it.
func (o *outcome) direct(r *pb.RangeRequest, g *messages.TxnGetResult) *pb.RangeResponse {
	n, count := int64(len(g.GetRecords())), int64(g.GetCount())
	want := count
	if r.Limit > 0 {
		want = min(want, r.Limit)
	}
	if count >= messages.CommandKeysMax || !r.CountOnly && n < want {
		return nil
	}
	resp := &pb.RangeResponse{Count: count}
	if r.CountOnly {
		return resp
	}
	resp.Kvs, resp.More = o.server.keyValues(g.GetRecords()), r.Limit > 0 && count > r.Limit
	onlyKeys(r, resp.Kvs...)
	return resp
}

// overlay puts the writes of the operations before i onto the keys of a range.
func (o *outcome) overlay(i int, r *pb.RangeRequest, kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	byKey := map[string]*mvccpb.KeyValue{}
	for _, kv := range kvs {
		byKey[string(kv.Key)] = kv
	}
	for _, op := range o.ops[:i] {
		if d := op.GetRequestDeleteRange(); d != nil {
			for k := range byKey {
				if named(d.Key, d.RangeEnd, k) {
					delete(byKey, k)
				}
			}
		}
		if p := op.GetRequestPut(); p != nil && named(r.Key, r.RangeEnd, string(p.Key)) {
			byKey[string(p.Key)] = o.successor(byKey[string(p.Key)], p)
		}
	}
	out := make([]*mvccpb.KeyValue, 0, len(byKey))
	for _, kv := range byKey {
		out = append(out, kv)
	}
	slices.SortFunc(out, func(a, b *mvccpb.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return out
}

// successor is the key after a put of this transaction.
func (o *outcome) successor(prev *mvccpb.KeyValue, p *pb.PutRequest) *mvccpb.KeyValue {
	rev := outRevision(o.after)
	kv := &mvccpb.KeyValue{Key: p.Key, Value: p.Value, Lease: p.Lease, CreateRevision: rev, ModRevision: rev, Version: 1}
	if prev == nil {
		return kv
	}
	kv.CreateRevision, kv.Version = prev.CreateRevision, prev.Version+1
	if p.IgnoreValue {
		kv.Value = prev.Value
	}
	if p.IgnoreLease {
		kv.Lease = prev.Lease
	}
	return kv
}

// named says that key and range_end name a key.
func named(key, end []byte, k string) bool {
	switch {
	case len(end) == 0:
		return k == string(key)
	case everything(end):
		return k >= string(key)
	}
	return k >= string(key) && k < string(end)
}

// finish makes the answer to a range out of all its keys, in order, as etcd does.
func finish(r *pb.RangeRequest, kvs []*mvccpb.KeyValue) *pb.RangeResponse {
	resp := &pb.RangeResponse{Count: int64(len(kvs))}
	if r.CountOnly {
		return resp
	}
	kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { return filtered(r, kv) })
	switch {
	case !byKey(r):
		if r.SortOrder == pb.RangeRequest_NONE && !hasFilters(r) && r.Limit > 0 && int64(len(kvs)) > r.Limit+1 {
			kvs = kvs[:r.Limit+1] // etcd sorts what it has read
		}
		sortBy(kvs, r.SortTarget, r.SortOrder == pb.RangeRequest_DESCEND)
	case r.SortOrder == pb.RangeRequest_DESCEND:
		slices.Reverse(kvs)
	}
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		kvs, resp.More = kvs[:r.Limit], true
	}
	resp.Kvs = kvs
	onlyKeys(r, kvs...)
	return resp
}
