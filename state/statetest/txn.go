package statetest

import (
	"cmp"
	"slices"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
)

func (t *Twin) txn(x *messages.Txn) (*messages.Result, *messages.Error) {
	out := &messages.TxnResult{Succeeded: true}
	for i, c := range x.Compares {
		order, err := t.order(c)
		if err != nil {
			return nil, under(err, "compares", i)
		}
		out.Succeeded = out.Succeeded && satisfies(c.Operator, order)
	}
	list, ops := "success", x.Success
	if !out.Succeeded {
		list, ops = "failure", x.Failure
	}
	b := &budget{}
	for i, op := range ops {
		r, err := t.txnOp(op, b)
		if err != nil {
			return nil, under(err, list, i).WithOp(i)
		}
		out.Responses = append(out.Responses, r)
	}
	return &messages.Result{Answer: &messages.Result_Txn{Txn: out}}, nil
}

func (t *Twin) txnOp(op *messages.TxnOp, b *budget) (*messages.TxnOpResult, *messages.Error) {
	switch o := op.Op.(type) {
	case *messages.TxnOp_Get:
		g, err := t.txnGet(o.Get, b)
		return &messages.TxnOpResult{Answer: &messages.TxnOpResult_Get{Get: g}}, err
	case *messages.TxnOp_Put:
		prev, err := t.put(o.Put)
		if err == nil && o.Put.PrevKv {
			err = b.must(prev)
		}
		return &messages.TxnOpResult{Answer: &messages.TxnOpResult_Put{Put: putResult(o.Put, prev)}}, err
	case *messages.TxnOp_Delete:
		d, err := t.delete(o.Delete, b)
		return &messages.TxnOpResult{Answer: &messages.TxnOpResult_Delete{Delete: d}}, err
	case *messages.TxnOp_Touch:
		left, err := t.touch(o.Touch)
		return &messages.TxnOpResult{Answer: &messages.TxnOpResult_Touch{Touch: &messages.TouchResult{RemainingTtlMs: left}}}, err
	}
	panic(op)
}

func (t *Twin) txnGet(g *messages.TxnGet, b *budget) (*messages.TxnGetResult, *messages.Error) {
	keys := t.selected(g.Selector)
	if g.Descending {
		slices.Reverse(keys)
	}
	out := &messages.TxnGetResult{Count: uint64(len(keys))}
	if g.CountOnly {
		return out, nil
	}
	_, one := g.Selector.By.(*messages.Selector_Key)
	for i, k := range keys {
		r := t.Keys[k]
		n := size(r)
		if g.KeysOnly {
			n -= uint64(len(r.Value))
		}
		switch {
		case one && !b.fits(n):
			return nil, messages.NewError(messages.Code_CODE_TOO_LARGE, "").WithField("get").WithLimit(messages.AnswerBytesMax)
		case !one && (i == int(g.Limit) || !b.fits(n)):
			out.HasMore = true
			return out, nil
		}
		out.Records = append(out.Records, t.show(r, g.KeysOnly))
	}
	return out, nil
}

// order compares what a compare looks at with what it wants; negative is less.
func (t *Twin) order(c *messages.Compare) (int, *messages.Error) {
	r := t.Keys[string(c.Key)]
	has := r != nil
	if r == nil {
		r = &messages.Record{}
	}
	switch x := c.Target.(type) {
	case *messages.Compare_Exists:
		return cmp.Compare(truth(has), truth(x.Exists)), nil
	case *messages.Compare_Value:
		if null := !has; null || x.Value.Null {
			return cmp.Compare(truth(!null), truth(!x.Value.Null)), nil
		}
		return cmp.Compare(string(r.Value), string(x.Value.Value)), nil
	case *messages.Compare_Field_:
		want, err := field.ParseJSON(x.Field.Json)
		if err != nil {
			return 0, messages.InvalidField("field.json", "")
		}
		have := field.Null
		if has {
			have = field.Extract(x.Field.Extractor, r.ContentType, string(r.Value))
		}
		return field.Compare(have, want), nil
	case *messages.Compare_Version:
		return cmp.Compare(r.Version, x.Version), nil
	case *messages.Compare_CreateRevision:
		return cmp.Compare(r.CreateRevision, x.CreateRevision), nil
	case *messages.Compare_ModRevision:
		return cmp.Compare(r.ModRevision, x.ModRevision), nil
	case *messages.Compare_LeaseId:
		return cmp.Compare(r.LeaseId, x.LeaseId), nil
	case *messages.Compare_TtlMs:
		l := t.Leases[r.LeaseId]
		if null := l == nil; null || x.TtlMs.Null {
			return cmp.Compare(truth(!null), truth(!x.TtlMs.Null)), nil
		}
		return cmp.Compare(max(0, l.Deadline-t.Clock), x.TtlMs.Value), nil
	}
	panic(c)
}

func satisfies(op messages.CompareOperator, order int) bool {
	return map[messages.CompareOperator]bool{
		messages.CompareOperator_COMPARE_OPERATOR_EQUAL:            order == 0,
		messages.CompareOperator_COMPARE_OPERATOR_NOT_EQUAL:        order != 0,
		messages.CompareOperator_COMPARE_OPERATOR_LESS:             order < 0,
		messages.CompareOperator_COMPARE_OPERATOR_LESS_OR_EQUAL:    order <= 0,
		messages.CompareOperator_COMPARE_OPERATOR_GREATER:          order > 0,
		messages.CompareOperator_COMPARE_OPERATOR_GREATER_OR_EQUAL: order >= 0,
	}[op]
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
