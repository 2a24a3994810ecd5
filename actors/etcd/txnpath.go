package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/messages"
)

// taken is the branch of a transaction that runs, and those of the ones nested in it.
type taken struct {
	succeeded bool
	ops       []*pb.RequestOp
	nested    []*taken // nil where ops is not a transaction
}

// walk finds the branches that a transaction takes in the state at one revision. It
// notes guards: compares that hold in every state in which the same branches are taken,
// as far as these compares tell.
type walk struct {
	server *Server
	at     uint64 // of ours
	guards []*pb.Compare
}

func (w *walk) take(ctx context.Context, r *pb.TxnRequest) (*taken, error) {
	t := &taken{succeeded: true, ops: r.GetSuccess()}
	for _, c := range r.GetCompare() {
		kvs, err := w.compared(ctx, c)
		if err != nil {
			return nil, err
		}
		if t.succeeded = holds(c, kvs); !t.succeeded {
			t.ops = r.GetFailure()
			w.failed(c, kvs)
			break
		}
		w.guards = append(w.guards, c)
	}
	t.nested = make([]*taken, len(t.ops))
	for i, op := range t.ops {
		if inner := op.GetRequestTxn(); inner != nil {
			var err error
			if t.nested[i], err = w.take(ctx, inner); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// compared reads the keys of a compare.
func (w *walk) compared(ctx context.Context, c *pb.Compare) ([]*mvccpb.KeyValue, error) {
	needsAll := c.Target == pb.Compare_VALUE || c.Target == pb.Compare_LEASE
	resp, err := w.server.readAt(ctx, &pb.RangeRequest{Key: c.Key, RangeEnd: c.RangeEnd, KeysOnly: !needsAll}, w.at)
	return resp.GetKvs(), err
}

// failed notes what keeps a compare from holding: one key as it is, or that there is none.
func (w *walk) failed(c *pb.Compare, kvs []*mvccpb.KeyValue) {
	if len(kvs) == 0 {
		w.guards = append(w.guards, guardEmpty(c))
		return
	}
	for _, kv := range kvs {
		if !compareOne(c, kv) {
			w.guards = append(w.guards, guard(kv.Key, kv.ModRevision))
			return
		}
	}
}

// flat returns the operations that run, in order.
func (t *taken) flat(out []*pb.RequestOp) []*pb.RequestOp {
	for i, op := range t.ops {
		if t.nested[i] != nil {
			out = t.nested[i].flat(out)
		} else {
			out = append(out, op)
		}
	}
	return out
}

// shape puts the responses of flat into the transaction's form. It returns those that
// are left.
func (t *taken) shape(list []*pb.ResponseOp) (*pb.TxnResponse, []*pb.ResponseOp) {
	resp := &pb.TxnResponse{Succeeded: t.succeeded, Header: &pb.ResponseHeader{}, Responses: make([]*pb.ResponseOp, len(t.ops))}
	for i := range t.ops {
		if t.nested[i] == nil {
			resp.Responses[i], list = list[0], list[1:]
			continue
		}
		var inner *pb.TxnResponse
		inner, list = t.nested[i].shape(list)
		resp.Responses[i] = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: inner}}
	}
	return resp, list
}

// pathAttempts is how often the branches are looked up anew when what decided them has
// changed before the transaction was applied.
const pathAttempts = 32

// pathTxn looks up which branches a transaction takes and proposes their operations, on
// condition that it would still take them.
func (s *Server) pathTxn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	for range pathAttempts {
		at, err := s.current(ctx, messages.Consistency_CONSISTENCY_LINEARIZABLE)
		if err != nil {
			return nil, err
		}
		w := walk{server: s, at: at}
		t, err := w.take(ctx, r)
		if err != nil {
			return nil, err
		}
		ops := t.flat(nil)
		if err := s.checkPast(ctx, ops, at); err != nil {
			return nil, err
		}
		result, err := s.onLeases(func(fresh bool) (*messages.Result, error) {
			txn, err := s.txnOf(ctx, &pb.TxnRequest{Compare: w.guards, Success: ops}, fresh)
			if err != nil {
				return nil, err
			}
			return s.sessions.write(ctx, &messages.Write{Op: &messages.Write_Txn{Txn: txn}})
		})
		if err != nil {
			return nil, s.leaseFirst(ctx, err, ops)
		}
		if !result.GetTxn().GetSucceeded() {
			continue
		}
		list, err := s.outcome(ops, result).responses(ctx)
		if err != nil {
			return nil, err
		}
		resp, _ := t.shape(list)
		resp.Header = s.header(result.Revision)
		return resp, nil
	}
	return nil, status.Error(codes.Unavailable, "etcdserver: the keys that decide the transaction change too fast")
}

// checkPast refuses ranges of revisions that cannot be read, and what stands before the
// first of them if that is refused too: etcd looks at the operations in order.
func (s *Server) checkPast(ctx context.Context, ops []*pb.RequestOp, at uint64) error {
	for i, op := range ops {
		r := op.GetRequestRange()
		if r.GetRevision() <= 0 {
			continue
		}
		_, err := s.readAt(ctx, &pb.RangeRequest{Key: r.Key, Revision: r.Revision, CountOnly: true}, at)
		if err == nil {
			continue
		}
		for _, before := range ops[:i] {
			if p := before.GetRequestPut(); p != nil {
				if err := s.checkPutAt(ctx, p, at); err != nil {
					return err
				}
			}
		}
		return err
	}
	return nil
}

// checkPutAt refuses a put whose lease does not exist, or which keeps something of a key
// that does not.
func (s *Server) checkPutAt(ctx context.Context, p *pb.PutRequest, at uint64) error {
	if p.Lease != 0 {
		if _, err := s.leaseInfo(ctx, p.Lease, false); err != nil {
			return err
		}
	}
	if !p.IgnoreValue && !p.IgnoreLease {
		return nil
	}
	resp, err := s.readAt(ctx, &pb.RangeRequest{Key: p.Key, CountOnly: true}, at)
	if err == nil && resp.Count == 0 {
		return rpctypes.ErrGRPCKeyNotFound
	}
	return err
}
