package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// txnOpsMax bounds compares, and operations of a branch, along every path through a
// transaction, as etcd's default does.
const txnOpsMax = 128

func checkRange(r *pb.RangeRequest) error {
	if len(r.GetKey()) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	if _, ok := pb.RangeRequest_SortOrder_name[int32(r.SortOrder)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	if _, ok := pb.RangeRequest_SortTarget_name[int32(r.SortTarget)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

func checkPut(r *pb.PutRequest) error {
	switch {
	case len(r.GetKey()) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

func checkDelete(r *pb.DeleteRangeRequest) error {
	if len(r.GetKey()) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// checkTxn checks everything about a transaction that can be known without the store.
func checkTxn(r *pb.TxnRequest) error {
	if err := checkTxnOps(r, txnOpsMax); err != nil {
		return err
	}
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		if _, _, err := checkOverlap(branch); err != nil {
			return err
		}
	}
	return nil
}

func checkTxnOps(r *pb.TxnRequest, most int) error {
	n := max(len(r.GetCompare()), len(r.GetSuccess()), len(r.GetFailure()))
	if n > most {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.GetCompare() {
		if len(c.GetKey()) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, branch := range [][]*pb.RequestOp{r.GetSuccess(), r.GetFailure()} {
		for _, op := range branch {
			if err := checkOp(op, most-n); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, most int) error {
	switch o := op.GetRequest().(type) {
	case *pb.RequestOp_RequestRange:
		return checkRange(o.RequestRange)
	case *pb.RequestOp_RequestPut:
		return checkPut(o.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return checkDelete(o.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		return checkTxnOps(o.RequestTxn, most)
	}
	return rpctypes.ErrGRPCKeyNotFound // as etcd says of an operation that is none
}

// span is a range of keys that is deleted; point is one key.
type span struct {
	start, end string
	point      bool
}

func (s span) has(key string) bool {
	if s.point {
		return key == s.start
	}
	return key >= s.start && key < s.end
}

func anyHas(spans []span, key string) bool {
	for _, s := range spans {
		if s.has(key) {
			return true
		}
	}
	return false
}

// checkOverlap refuses a branch that puts a key twice, or puts one that it deletes, on a
// path that can be taken. It returns the keys put and the ranges deleted.
func checkOverlap(ops []*pb.RequestOp) (puts map[string]bool, dels []span, err error) {
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			dels = append(dels, span{string(d.Key), string(d.RangeEnd), len(d.RangeEnd) == 0})
		}
	}
	puts = map[string]bool{}
	for _, op := range ops {
		t := op.GetRequestTxn()
		if t == nil {
			continue
		}
		then, thenDels, err := checkOverlap(t.Success)
		if err != nil {
			return nil, nil, err
		}
		otherwise, otherwiseDels, err := checkOverlap(t.Failure)
		if err != nil {
			return nil, nil, err
		}
		for k := range then {
			if puts[k] || anyHas(dels, k) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
			puts[k] = true
		}
		for k := range otherwise {
			// Only one of the two branches is taken.
			if puts[k] && !then[k] || anyHas(dels, k) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
			puts[k] = true
		}
		dels = append(append(dels, thenDels...), otherwiseDels...)
	}
	for _, op := range ops {
		p := op.GetRequestPut()
		if p == nil {
			continue
		}
		k := string(p.Key)
		if puts[k] || anyHas(dels, k) {
			return nil, nil, rpctypes.ErrGRPCDuplicateKey
		}
		puts[k] = true
	}
	return puts, dels, nil
}
