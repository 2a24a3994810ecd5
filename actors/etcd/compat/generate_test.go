package compat

import (
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// generator makes requests that often touch the same keys, leases and revisions.
type generator struct {
	*rand.Rand
	revision int64 // the latest that an answer has named
	leases   []int64
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) key() []byte {
	if g.chance(3) {
		return []byte("z")
	}
	return fmt.Appendf(nil, "k%c", 'a'+rune(g.IntN(9)))
}

// span returns key and range_end.
func (g *generator) span() (key, end []byte) {
	switch g.IntN(10) {
	case 0:
		return []byte{0}, []byte{0}
	case 1:
		return g.key(), []byte{0}
	case 2:
		return []byte("k"), []byte("l")
	case 3, 4:
		return g.key(), g.key() // often the wrong way round
	case 5:
		k := g.key()
		return k, append(append([]byte(nil), k...), 0)
	}
	return g.key(), nil
}

func (g *generator) value() []byte {
	if g.chance(5) {
		return nil
	}
	return fmt.Appendf(nil, "v%d", g.IntN(6))
}

// at returns a revision that an answer may have named, or is near one.
func (g *generator) at() int64 {
	switch g.IntN(8) {
	case 0:
		return g.revision + 1 + g.Int64N(2)
	case 1, 2:
		return 1 + g.Int64N(g.revision)
	}
	return max(1, g.revision-g.Int64N(20))
}

func (g *generator) someLease() int64 {
	if len(g.leases) == 0 || g.chance(8) {
		return 900_000 + g.Int64N(5) // never granted
	}
	return g.leases[g.IntN(len(g.leases))]
}

func (g *generator) put() *pb.PutRequest {
	p := &pb.PutRequest{Key: g.key(), Value: g.value(), PrevKv: g.chance(30)}
	if g.chance(30) {
		p.Lease = g.someLease()
	}
	if g.chance(8) {
		p.IgnoreValue = true
		if g.chance(80) {
			p.Value = nil
		}
	}
	if g.chance(8) {
		p.IgnoreLease = true
		if g.chance(80) {
			p.Lease = 0
		}
	}
	if g.chance(1) {
		p.Key = nil
	}
	return p
}

func (g *generator) rangeRequest() *pb.RangeRequest {
	r := &pb.RangeRequest{Serializable: g.chance(20), KeysOnly: g.chance(15), CountOnly: g.chance(10)}
	r.Key, r.RangeEnd = g.span()
	if g.chance(30) {
		r.Limit = g.Int64N(6)
	}
	if g.chance(35) {
		r.Revision = g.at()
	}
	if g.chance(35) {
		r.SortOrder = pb.RangeRequest_SortOrder(g.IntN(3))
		r.SortTarget = pb.RangeRequest_SortTarget(g.IntN(5))
	}
	if g.chance(15) {
		for _, f := range []*int64{&r.MinModRevision, &r.MaxModRevision, &r.MinCreateRevision, &r.MaxCreateRevision} {
			if g.chance(40) {
				*f = g.at()
			}
		}
	}
	if g.chance(1) {
		r.SortTarget = 9
	}
	return r
}

func (g *generator) deleteRange() *pb.DeleteRangeRequest {
	d := &pb.DeleteRangeRequest{Key: g.key(), PrevKv: g.chance(40)}
	if g.chance(25) {
		d.Key, d.RangeEnd = g.span()
	}
	return d
}

func (g *generator) compare() *pb.Compare {
	c := &pb.Compare{Key: g.key(), Result: pb.Compare_CompareResult(g.IntN(4)), Target: pb.Compare_CompareTarget(g.IntN(5))}
	if g.chance(20) {
		c.Key, c.RangeEnd = g.span()
	}
	switch c.Target {
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: g.Int64N(5) - 1}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: g.compared()}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: g.compared()}
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: g.value()}
	case pb.Compare_LEASE:
		// The order of leases is not promised, but for that of none.
		c.TargetUnion = &pb.Compare_Lease{}
		if g.chance(60) {
			c.Result = [...]pb.Compare_CompareResult{pb.Compare_EQUAL, pb.Compare_NOT_EQUAL}[g.IntN(2)]
			c.TargetUnion = &pb.Compare_Lease{Lease: g.someLease()}
		}
	}
	return c
}

func (g *generator) compared() int64 {
	if g.chance(40) {
		return g.Int64N(4) - 1
	}
	return g.at()
}

func (g *generator) txn(depth int) *pb.TxnRequest {
	t := &pb.TxnRequest{}
	for range g.IntN(3) {
		t.Compare = append(t.Compare, g.compare())
	}
	reads := g.chance(20)
	ops := func() (list []*pb.RequestOp) {
		for range g.IntN(4) {
			list = append(list, g.op(depth, reads))
		}
		return list
	}
	t.Success, t.Failure = ops(), ops()
	return t
}

func (g *generator) op(depth int, reads bool) *pb.RequestOp {
	switch n := g.IntN(10); {
	case n < 3 || reads:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: g.rangeRequest()}}
	case n < 7:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: g.put()}}
	case n < 9 || depth == 0:
		d := g.deleteRange()
		if len(d.RangeEnd) == 1 {
			// etcd does not see that such a range holds a key that is put beside it, and its
			// server panics when that put is to keep something of the key.
			d.RangeEnd = []byte("l")
		}
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: d}}
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: g.txn(depth - 1)}}
}
