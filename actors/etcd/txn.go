package etcd

import (
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/concord-kv/concord/messages"
)

// Txn runs one branch of a transaction, all or nothing, at one place of the log. One that
// only reads is answered from one revision and never enters the log.
func (s *kvServer) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := checkTxn(r); err != nil {
		return nil, err
	}
	var (
		resp *pb.TxnResponse
		err  error
	)
	switch {
	case onlyReads(r):
		resp, err = s.readTxn(ctx, r)
	case needsPath(r):
		resp, err = s.pathTxn(ctx, r)
	default:
		resp, err = s.flatTxn(ctx, r)
	}
	return resp, toStatus(err)
}

// branches yields the operations of both branches.
func branches(r *pb.TxnRequest) func(yield func(*pb.RequestOp) bool) {
	return func(yield func(*pb.RequestOp) bool) {
		for _, branch := range [][]*pb.RequestOp{r.GetSuccess(), r.GetFailure()} {
			for _, op := range branch {
				if !yield(op) {
					return
				}
			}
		}
	}
}

func onlyReads(r *pb.TxnRequest) bool {
	for op := range branches(r) {
		if t := op.GetRequestTxn(); t != nil && !onlyReads(t) || t == nil && op.GetRequestRange() == nil {
			return false
		}
	}
	return true
}

func allSerializable(r *pb.TxnRequest) bool {
	for op := range branches(r) {
		if t := op.GetRequestTxn(); t != nil && !allSerializable(t) || t == nil && !op.GetRequestRange().GetSerializable() {
			return false
		}
	}
	return true
}

// needsPath says that it must be known which operations run before they do: those of
// nested transactions, and ranges of the past, which are refused before anything is
// written.
func needsPath(r *pb.TxnRequest) bool {
	for op := range branches(r) {
		if op.GetRequestTxn() != nil || op.GetRequestRange().GetRevision() != 0 {
			return true
		}
	}
	return false
}

// flatTxn proposes the transaction as it stands.
func (s *Server) flatTxn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	result, err := s.onLeases(func(fresh bool) (*messages.Result, error) {
		txn, err := s.txnOf(ctx, r, fresh)
		if err != nil {
			return nil, err
		}
		return s.sessions.write(ctx, &messages.Write{Op: &messages.Write_Txn{Txn: txn}})
	})
	if err != nil {
		ops := r.Success
		if strings.HasPrefix(messages.DetailOf(err).GetField(), "failure") {
			ops = r.Failure
		}
		return nil, s.leaseFirst(ctx, err, ops)
	}
	t := result.GetTxn()
	ops := r.Success
	if !t.GetSucceeded() {
		ops = r.Failure
	}
	list, err := s.outcome(ops, result).responses(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.TxnResponse{Header: s.header(result.Revision), Succeeded: t.GetSucceeded(), Responses: list}, nil
}

// txnOf returns a transaction without nested ones as our sessions know it.
func (s *Server) txnOf(ctx context.Context, r *pb.TxnRequest, fresh bool) (*messages.Txn, error) {
	t := &messages.Txn{}
	for _, c := range r.Compare {
		one, err := s.compareOf(ctx, c, fresh)
		if err != nil {
			return nil, err
		}
		t.Compares = append(t.Compares, one)
	}
	if len(t.Compares) > messages.TxnComparesMax || len(r.Success) > messages.TxnOperationsMax || len(r.Failure) > messages.TxnOperationsMax {
		return nil, rpctypes.ErrGRPCTooManyOps
	}
	var err error
	if t.Success, err = s.opsOf(ctx, r.Success, fresh); err != nil {
		return nil, err
	}
	t.Failure, err = s.opsOf(ctx, r.Failure, fresh)
	return t, err
}

func (s *Server) opsOf(ctx context.Context, ops []*pb.RequestOp, fresh bool) ([]*messages.TxnOp, error) {
	out := make([]*messages.TxnOp, len(ops))
	for i, op := range ops {
		switch o := op.GetRequest().(type) {
		case *pb.RequestOp_RequestRange:
			out[i] = getOp(o.RequestRange)
		case *pb.RequestOp_RequestPut:
			put, err := s.putOf(ctx, o.RequestPut, fresh)
			if err != nil {
				return nil, err
			}
			out[i] = &messages.TxnOp{Op: &messages.TxnOp_Put{Put: put}}
		case *pb.RequestOp_RequestDeleteRange:
			d := o.RequestDeleteRange
			sel, empty := selectorOf(d.Key, d.RangeEnd)
			if empty {
				out[i] = placeOf(d.Key)
				continue
			}
			out[i] = &messages.TxnOp{Op: &messages.TxnOp_Delete{Delete: &messages.Delete{Selector: sel, PrevKv: d.PrevKv}}}
		}
	}
	return out, nil
}

// getOp returns the get that answers a range inside the transaction, if one can.
func getOp(r *pb.RangeRequest) *messages.TxnOp {
	sel, empty := selectorOf(r.Key, r.RangeEnd)
	if empty || !direct(r) {
		return placeOf(r.Key)
	}
	g := &messages.TxnGet{Selector: sel, KeysOnly: r.KeysOnly, CountOnly: r.CountOnly}
	if _, one := sel.GetBy().(*messages.Selector_Key); !one {
		g.Descending = r.SortOrder == pb.RangeRequest_DESCEND
		if g.Limit = messages.TxnGetLimitMax; r.Limit > 0 {
			g.Limit = uint32(min(r.Limit, messages.TxnGetLimitMax))
		}
	}
	return &messages.TxnOp{Op: &messages.TxnOp_Get{Get: g}}
}

// placeOf keeps the place of an operation that is answered without the transaction.
func placeOf(key []byte) *messages.TxnOp {
	return &messages.TxnOp{Op: &messages.TxnOp_Get{Get: &messages.TxnGet{
		Selector: &messages.Selector{By: &messages.Selector_Key{Key: key}}, CountOnly: true,
	}}}
}

// direct says that a get inside the transaction can answer a range, if it is not too large.
func direct(r *pb.RangeRequest) bool {
	return r.Revision <= 0 && !hasFilters(r) && (byKey(r) || len(r.RangeEnd) == 0)
}

// readTxn answers a transaction without writes from one revision.
func (s *Server) readTxn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	consistency := messages.Consistency_CONSISTENCY_LINEARIZABLE
	if allSerializable(r) && len(r.Success)+len(r.Failure) > 0 {
		consistency = messages.Consistency_CONSISTENCY_STALE
	}
	at, err := s.current(ctx, consistency)
	if err != nil {
		return nil, err
	}
	w := walk{server: s, at: at}
	t, err := w.take(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := s.readTaken(ctx, t, at)
	if err != nil {
		return nil, err
	}
	resp.Header = s.header(at)
	return resp, nil
}

// readTaken answers the ranges of the branches that were taken.
func (s *Server) readTaken(ctx context.Context, t *taken, at uint64) (*pb.TxnResponse, error) {
	resp := &pb.TxnResponse{Succeeded: t.succeeded, Header: &pb.ResponseHeader{}, Responses: make([]*pb.ResponseOp, len(t.ops))}
	for i, op := range t.ops {
		if t.nested[i] != nil {
			inner, err := s.readTaken(ctx, t.nested[i], at)
			if err != nil {
				return nil, err
			}
			resp.Responses[i] = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: inner}}
			continue
		}
		kvs, err := s.readAt(ctx, op.GetRequestRange(), at)
		if err != nil {
			return nil, err
		}
		kvs.Header = &pb.ResponseHeader{Revision: outRevision(at)}
		resp.Responses[i] = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: kvs}}
	}
	return resp, nil
}

// current returns the store's revision.
func (s *Server) current(ctx context.Context, c messages.Consistency) (uint64, error) {
	q, err := s.sessions.query(ctx, &messages.Query{Consistency: c, Query: &messages.Query_Revision{Revision: &messages.RevisionRequest{}}})
	if err != nil {
		return 0, err
	}
	return q.Revision, nil
}

// readAt answers a range as if revision at, of ours, were the latest.
func (s *Server) readAt(ctx context.Context, r *pb.RangeRequest, at uint64) (*pb.RangeResponse, error) {
	switch {
	case r.Revision > outRevision(at):
		return nil, rpctypes.ErrGRPCFutureRev
	case at == 0:
		return &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{}}, nil
	}
	resp, _, err := s.read(ctx, r, at)
	return resp, err
}
