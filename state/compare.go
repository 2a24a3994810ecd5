package state

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
	"github.com/concord-kv/concord/state/store"
)

// compares evaluates the predicates of a transaction over the state before it. All
// of them are looked at, also after one failed, so that a bad one is always refused.
func (m *Machine) compares(list []*messages.Compare) (hold bool, err *messages.Error) {
	hold = true
	for i, c := range list {
		one, err := m.compare(c)
		if err != nil {
			return false, atElement(err, "compares", i)
		}
		hold = hold && one
	}
	return hold, nil
}

// compare evaluates one predicate, over one key or over each key of a range.
func (m *Machine) compare(c *messages.Compare) (bool, *messages.Error) {
	if c.GetRange() == nil {
		r, exists := m.kv.Get(keyOf(c.GetKey()))
		return m.compareOne(c, r, exists)
	}
	var err *messages.Error
	hold, any := true, false
	m.kv.Ascend(keyOf(c.Range.GetStart()), keyOf(c.Range.GetEnd()), func(r store.Rec) bool {
		any = true
		hold, err = m.compareOne(c, r, true)
		return hold && err == nil
	})
	if !any {
		return m.compareOne(c, "", false)
	}
	return hold, err
}

// compareOne evaluates a predicate over one key. A key that is absent does not exist,
// has value, field and ttl null, no lease, and numbers 0.
func (m *Machine) compareOne(c *messages.Compare, r store.Rec, exists bool) (bool, *messages.Error) {
	op := c.GetOperator()
	switch t := c.GetTarget().(type) {
	case *messages.Compare_Exists:
		return holds(op, boolOrder(exists)-boolOrder(t.Exists)), nil
	case *messages.Compare_Value:
		if c.GetOrdered() {
			return exists && holds(op, strings.Compare(r.Value(), keyOf(t.Value.GetValue()))), nil
		}
		if t.Value.GetNull() || !exists {
			return holds(op, boolOrder(exists)-boolOrder(!t.Value.GetNull())), nil
		}
		return holds(op, boolOrder(r.Value() != string(t.Value.GetValue()))), nil
	case *messages.Compare_Field_:
		want, err := m.parser.ParseJSON(t.Field.GetJson())
		if err != nil {
			return false, messages.InvalidField("field.json", "%v", err)
		}
		have := field.Null
		if exists {
			have = m.parser.Extract(t.Field.GetExtractor(), r.ContentType(), r.Value())
		}
		return holds(op, field.Compare(have, want)), nil
	case *messages.Compare_Version:
		return holds(op, cmp.Compare(number(exists, r, store.Rec.Version), t.Version)), nil
	case *messages.Compare_CreateRevision:
		return holds(op, cmp.Compare(number(exists, r, store.Rec.Create), t.CreateRevision)), nil
	case *messages.Compare_ModRevision:
		return holds(op, cmp.Compare(number(exists, r, store.Rec.Mod), t.ModRevision)), nil
	case *messages.Compare_LeaseId:
		return holds(op, cmp.Compare(number(exists, r, store.Rec.Lease), t.LeaseId)), nil
	case *messages.Compare_TtlMs:
		have, ok := m.remaining(r, exists)
		if !ok || t.TtlMs.GetNull() {
			return holds(op, boolOrder(ok)-boolOrder(!t.TtlMs.GetNull())), nil
		}
		return holds(op, cmp.Compare(have, t.TtlMs.GetValue())), nil
	}
	panic(fmt.Sprintf("state: compare of %T passed validation", c.GetTarget()))
}

// remaining returns the time that is left on a record's lease, 0 when it is dead;
// false when it has none.
func (m *Machine) remaining(r store.Rec, exists bool) (int64, bool) {
	if !exists || r.Lease() == 0 {
		return 0, false
	}
	row := m.leases.at(m.mustFind(r.Lease()))
	return max(0, row.deadlineMs-m.clock.ms), true
}

func number(exists bool, r store.Rec, of func(store.Rec) uint64) uint64 {
	if !exists {
		return 0
	}
	return of(r)
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// holds applies an operator to the order of two values: negative, 0, positive.
func holds(op messages.CompareOperator, order int) bool {
	switch op {
	case messages.CompareOperator_COMPARE_OPERATOR_EQUAL:
		return order == 0
	case messages.CompareOperator_COMPARE_OPERATOR_NOT_EQUAL:
		return order != 0
	case messages.CompareOperator_COMPARE_OPERATOR_LESS:
		return order < 0
	case messages.CompareOperator_COMPARE_OPERATOR_LESS_OR_EQUAL:
		return order <= 0
	case messages.CompareOperator_COMPARE_OPERATOR_GREATER:
		return order > 0
	case messages.CompareOperator_COMPARE_OPERATOR_GREATER_OR_EQUAL:
		return order >= 0
	}
	panic(fmt.Sprintf("state: operator %d passed validation", op))
}
