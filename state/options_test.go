package state_test

import (
	"testing"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// options drives a machine with one command an entry.
type options struct {
	t     *testing.T
	m     *state.Machine
	index uint64
}

func newOptions(t *testing.T) *options {
	o := &options{t: t, m: state.New()}
	for _, c := range []*messages.Command{
		{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{ReplicaId: 1, Nonce: 1}}},
		{Op: &messages.Command_Bootstrap{Bootstrap: &messages.Bootstrap{ClusterId: []byte("c"), Incarnation: 1, Config: messages.DefaultClusterConfig(), ApplyVersion: messages.ApplyVersion}}},
	} {
		o.do(c)
	}
	return o
}

func (o *options) do(c *messages.Command) *messages.Result {
	o.index++
	c.StampMs = int64(o.index)
	return o.m.Apply(o.index, &messages.Entry{Epoch: 1, ReplicaId: 1, Nonce: 1, Commands: []*messages.Command{c}})[0]
}

func (o *options) put(p *messages.Put) *messages.Result {
	return o.do(&messages.Command{Op: &messages.Command_Put{Put: p}})
}

func (o *options) grant() uint64 {
	r := o.do(&messages.Command{Op: &messages.Command_GrantLease{GrantLease: &messages.GrantLease{TtlMs: 60_000}}})
	return r.GetGrantLease().GetLeaseId()
}

// TestMoveLease: a put may take its key from one lease to another, and only if it says so.
func TestMoveLease(t *testing.T) {
	o := newOptions(t)
	a, b := o.grant(), o.grant()
	o.put(&messages.Put{Key: []byte("k"), LeaseId: a})
	if code := o.put(&messages.Put{Key: []byte("k"), LeaseId: b}).GetError().GetCode(); code != messages.Code_CODE_LEASE_CONFLICT {
		t.Fatalf("without move_lease: %v", code)
	}
	r := o.put(&messages.Put{Key: []byte("k"), LeaseId: b, MoveLease: true})
	if r.GetError() != nil || r.Revision != 2 {
		t.Fatalf("with move_lease: %v", r)
	}
	revoke := func(id uint64) uint64 {
		r := o.do(&messages.Command{Op: &messages.Command_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: id}}})
		return r.GetRevokeLease().GetKeysDeleted()
	}
	if n := revoke(a); n != 0 {
		t.Errorf("the old lease still had %d keys", n)
	}
	if n := revoke(b); n != 1 {
		t.Errorf("the new lease had %d keys", n)
	}
	if o.m.Digest() != o.m.FullDigest() {
		t.Error("the digest is not the state's")
	}
}

// TestExactCompaction: it is not held back by a consumer, and never goes back.
func TestExactCompaction(t *testing.T) {
	o := newOptions(t)
	lease := o.grant()
	for range 5 {
		o.put(&messages.Put{Key: []byte("k")})
	}
	o.do(&messages.Command{Op: &messages.Command_OpenCursor{OpenCursor: &messages.OpenCursor{Name: "c", LeaseId: lease, AfterRevision: 2}}})
	compact := func(revision uint64, exact bool) *messages.Result {
		return o.do(&messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: revision, Exact: exact}}})
	}
	if c := compact(4, false).GetCompact().GetCompactRevision(); c != 2 {
		t.Fatalf("a consumer holds history from 2, but it was compacted to %d", c)
	}
	if c := compact(4, true).GetCompact().GetCompactRevision(); c != 4 {
		t.Fatalf("exact: %d", c)
	}
	for revision, code := range map[uint64]messages.Code{4: messages.Code_CODE_COMPACTED, 3: messages.Code_CODE_COMPACTED, 6: messages.Code_CODE_FUTURE_REVISION} {
		if got := compact(revision, true).GetError().GetCode(); got != code {
			t.Errorf("exact at %d: %v, want %v", revision, got, code)
		}
	}
}

// TestCompareOptions: predicates over ranges, and by the order of bytes.
func TestCompareOptions(t *testing.T) {
	o := newOptions(t)
	for _, k := range []string{"a", "b", "c"} {
		o.put(&messages.Put{Key: []byte(k), Value: []byte("v" + k)})
	}
	const (
		eq = messages.CompareOperator_COMPARE_OPERATOR_EQUAL
		ne = messages.CompareOperator_COMPARE_OPERATOR_NOT_EQUAL
		lt = messages.CompareOperator_COMPARE_OPERATOR_LESS
		gt = messages.CompareOperator_COMPARE_OPERATOR_GREATER
	)
	span := func(start, end string) *messages.KeyRange {
		return &messages.KeyRange{Start: []byte(start), End: []byte(end)}
	}
	value := func(v string) *messages.Compare_Value {
		return &messages.Compare_Value{Value: &messages.Compare_NullableBytes{Value: []byte(v)}}
	}
	for _, c := range []struct {
		name    string
		compare *messages.Compare
		holds   bool
	}{
		{"every key of the range", &messages.Compare{Range: span("a", "d"), Operator: eq, Target: &messages.Compare_Version{Version: 1}}, true},
		{"one key of the range does not", &messages.Compare{Range: span("a", ""), Operator: lt, Target: &messages.Compare_ModRevision{ModRevision: 3}}, false},
		{"the keys before it do", &messages.Compare{Range: span("a", "c"), Operator: lt, Target: &messages.Compare_ModRevision{ModRevision: 3}}, true},
		{"an empty range is an absent key", &messages.Compare{Range: span("x", "z"), Operator: eq, Target: &messages.Compare_Version{}}, true},
		{"an empty range has no value", &messages.Compare{Range: span("x", "z"), Operator: ne, Target: value("v"), Ordered: true}, false},
		{"less by bytes", &messages.Compare{Key: []byte("a"), Operator: lt, Target: value("vb"), Ordered: true}, true},
		{"greater by bytes", &messages.Compare{Range: span("b", "d"), Operator: gt, Target: value("va"), Ordered: true}, true},
		{"an absent key is not unequal", &messages.Compare{Key: []byte("x"), Operator: ne, Target: value("v"), Ordered: true}, false},
		{"without ordered it is", &messages.Compare{Key: []byte("x"), Operator: ne, Target: value("v")}, true},
		{"leases by number", &messages.Compare{Key: []byte("a"), Operator: lt, Target: &messages.Compare_LeaseId{LeaseId: 1}, Ordered: true}, true},
	} {
		txn := &messages.Txn{Compares: []*messages.Compare{c.compare}}
		if err := messages.ValidateOperation(&messages.Command{Op: &messages.Command_Txn{Txn: txn}}, messages.DefaultClusterConfig()); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := o.do(&messages.Command{Op: &messages.Command_Txn{Txn: txn}}).GetTxn().GetSucceeded(); got != c.holds {
			t.Errorf("%s: holds %v, want %v", c.name, got, c.holds)
		}
	}
}
