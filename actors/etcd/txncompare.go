package etcd

import (
	"bytes"
	"cmp"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/concord-kv/concord/messages"
)

var operators = map[pb.Compare_CompareResult]messages.CompareOperator{
	pb.Compare_EQUAL:     messages.CompareOperator_COMPARE_OPERATOR_EQUAL,
	pb.Compare_NOT_EQUAL: messages.CompareOperator_COMPARE_OPERATOR_NOT_EQUAL,
	pb.Compare_GREATER:   messages.CompareOperator_COMPARE_OPERATOR_GREATER,
	pb.Compare_LESS:      messages.CompareOperator_COMPARE_OPERATOR_LESS,
}

// compareOf returns a compare as our sessions know it. One that always holds is asked
// too: whether the client may read its keys is checked with it.
func (s *Server) compareOf(ctx context.Context, c *pb.Compare, fresh bool) (*messages.Compare, error) {
	op, known := operators[c.Result]
	out := &messages.Compare{Operator: op}
	sel, empty := selectorOf(c.Key, c.RangeEnd)
	switch by := sel.By.(type) {
	case *messages.Selector_Key:
		out.Key = by.Key
	case *messages.Selector_Range:
		out.Range = by.Range
		if empty {
			// No key can be in it: as an absent key, of which this is one.
			out.Range = &messages.KeyRange{Start: c.Key, End: append(bytes.Clone(c.Key), 0)}
			return s.constant(out, compareOne(c, nil)), nil
		}
	}
	if !known {
		return s.constant(out, true), nil // as etcd: no operator that it knows fails
	}
	switch c.Target {
	case pb.Compare_VERSION:
		v := c.GetVersion()
		if v < 0 {
			return s.constant(out, compareOne(c, &mvccpb.KeyValue{})), nil
		}
		out.Target = &messages.Compare_Version{Version: uint64(v)}
	case pb.Compare_CREATE:
		return s.revisionCompare(out, c, c.GetCreateRevision(), func(r uint64) { out.Target = &messages.Compare_CreateRevision{CreateRevision: r} }), nil
	case pb.Compare_MOD:
		return s.revisionCompare(out, c, c.GetModRevision(), func(r uint64) { out.Target = &messages.Compare_ModRevision{ModRevision: r} }), nil
	case pb.Compare_VALUE:
		out.Ordered = true
		out.Target = &messages.Compare_Value{Value: &messages.Compare_NullableBytes{Value: c.GetValue()}}
	case pb.Compare_LEASE:
		return s.leaseCompare(ctx, out, c, fresh)
	default:
		return s.constant(out, compareOne(c, &mvccpb.KeyValue{})), nil
	}
	return out, nil
}

// constant returns a compare that always, or never, holds: one that every key meets, an
// absent one too, or none.
func (s *Server) constant(c *messages.Compare, holds bool) *messages.Compare {
	c.Ordered = false
	if holds {
		c.Operator = messages.CompareOperator_COMPARE_OPERATOR_GREATER_OR_EQUAL
		c.Target = &messages.Compare_Version{}
		return c
	}
	c.Operator = messages.CompareOperator_COMPARE_OPERATOR_LESS
	c.Target = &messages.Compare_Version{}
	return c
}

// revisionCompare compares a key's revision, which is 0, or 2 and more on etcd's side, and
// one less on ours.
func (s *Server) revisionCompare(out *messages.Compare, c *pb.Compare, asked int64, set func(uint64)) *messages.Compare {
	switch {
	case asked < 0:
		return s.constant(out, compareOne(c, &mvccpb.KeyValue{}))
	case asked == 0:
		set(0)
	case asked > 1:
		set(uint64(asked - 1))
	default: // 1 lies between "none" and the first
		switch c.Result {
		case pb.Compare_EQUAL:
			return s.constant(out, false)
		case pb.Compare_NOT_EQUAL:
			return s.constant(out, true)
		case pb.Compare_LESS:
			set(1)
		default:
			set(0)
		}
	}
	return out
}

// leaseCompare compares a key's lease. Among the leases of a key, those with a chosen id
// count as below the others; their order among each other is that of their grant.
func (s *Server) leaseCompare(ctx context.Context, out *messages.Compare, c *pb.Compare, fresh bool) (*messages.Compare, error) {
	asked := c.GetLease()
	if asked < 0 {
		return s.constant(out, compareOne(c, &mvccpb.KeyValue{})), nil
	}
	id, err := s.leases.resolve(ctx, asked, fresh)
	if err != nil {
		return nil, err
	}
	out.Ordered, out.Target = true, &messages.Compare_LeaseId{LeaseId: id}
	if id == neverLease && asked <= leaseBase {
		// No such lease: below it is only "none".
		switch c.Result {
		case pb.Compare_LESS:
			out.Target = &messages.Compare_LeaseId{LeaseId: 1}
		case pb.Compare_GREATER:
			out.Target = &messages.Compare_LeaseId{LeaseId: 0}
		}
	}
	return out, nil
}

// holds evaluates a compare over the keys that it names, as they were read.
func holds(c *pb.Compare, kvs []*mvccpb.KeyValue) bool {
	if len(kvs) == 0 {
		return compareOne(c, nil)
	}
	for _, kv := range kvs {
		if !compareOne(c, kv) {
			return false
		}
	}
	return true
}

// compareOne evaluates a compare over one key; nil is a key that is absent.
func compareOne(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	if kv == nil {
		if c.Target == pb.Compare_VALUE {
			return false
		}
		kv = &mvccpb.KeyValue{}
	}
	order := 0
	switch c.Target {
	case pb.Compare_VALUE:
		order = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		order = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		order = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		order = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		order = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return order == 0
	case pb.Compare_NOT_EQUAL:
		return order != 0
	case pb.Compare_GREATER:
		return order > 0
	case pb.Compare_LESS:
		return order < 0
	}
	return true
}

// guard returns a compare that holds while key has the mod revision that it was read
// with; 0 for absent.
func guard(key []byte, mod int64) *pb.Compare {
	return &pb.Compare{
		Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: mod},
	}
}

// guardEmpty returns a compare that holds while a range has no keys.
func guardEmpty(c *pb.Compare) *pb.Compare {
	return &pb.Compare{
		Key: c.Key, RangeEnd: c.RangeEnd, Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_Version{},
	}
}
