package state

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// txn runs one branch of a transaction on what it has staged so far, so that each
// operation sees the earlier ones; the first refusal drops all of it. A failed
// compare is no error.
func (m *Machine) txn(r *messages.Result, t *messages.Txn) *messages.Error {
	succeeded, err := m.compares(t.GetCompares())
	if err != nil {
		return err
	}
	name, branch := "success", t.GetSuccess()
	if !succeeded {
		name, branch = "failure", t.GetFailure()
	}
	// A single operation checks before it changes anything.
	if m.begin(len(branch) > 1); len(branch) > 1 {
		m.openJournal()
	}
	answer := newTxnAnswer(succeeded, len(branch))
	for i, op := range branch {
		if answer.result.Responses[i], err = m.txnOp(op); err != nil {
			m.abandon()
			return atElement(err, name, i).WithOp(i)
		}
	}
	m.commit()
	r.Answer = &answer.wrapper
	return nil
}

// txnAnswer keeps the parts of a transaction's answer in one piece of memory.
type txnAnswer struct {
	wrapper messages.Result_Txn
	result  messages.TxnResult
	few     [2]*messages.TxnOpResult
}

func newTxnAnswer(succeeded bool, operations int) *txnAnswer {
	a := &txnAnswer{}
	a.wrapper.Txn = &a.result
	a.result.Succeeded = succeeded
	if operations <= len(a.few) {
		a.result.Responses = a.few[:operations:operations]
	} else {
		a.result.Responses = make([]*messages.TxnOpResult, operations)
	}
	return a
}

// emptyTxnPut answers every put in a transaction that does not ask for more.
var emptyTxnPut = &messages.TxnOpResult{Answer: &messages.TxnOpResult_Put{Put: emptyPut.Put}}

func (m *Machine) txnOp(op *messages.TxnOp) (*messages.TxnOpResult, *messages.Error) {
	switch o := op.GetOp().(type) {
	case *messages.TxnOp_Get:
		result, err := m.txnGet(o.Get)
		if err != nil {
			return nil, err
		}
		return &messages.TxnOpResult{Answer: &messages.TxnOpResult_Get{Get: result}}, nil
	case *messages.TxnOp_Put:
		prev, err := m.stagePut(o.Put)
		if err != nil {
			return nil, err
		}
		if !o.Put.GetPrevKv() || prev == "" {
			return emptyTxnPut, nil
		}
		if err := m.write.answer.take(prev); err != nil {
			return nil, err
		}
		return &messages.TxnOpResult{Answer: &messages.TxnOpResult_Put{Put: putAnswer(prev, true).Put}}, nil
	case *messages.TxnOp_Delete:
		result, err := m.stageDelete(o.Delete)
		if err != nil {
			return nil, err
		}
		return &messages.TxnOpResult{Answer: &messages.TxnOpResult_Delete{Delete: result}}, nil
	case *messages.TxnOp_Touch:
		remaining, err := m.stageTouch(o.Touch)
		if err != nil {
			return nil, err
		}
		return &messages.TxnOpResult{Answer: &messages.TxnOpResult_Touch{Touch: &messages.TouchResult{RemainingTtlMs: remaining}}}, nil
	}
	panic(fmt.Sprintf("state: transaction operation %T passed validation", op.GetOp()))
}

// txnGet reads inside a transaction. It counts at most CommandKeysMax keys: a
// count over the whole store would hold up everything behind it in the log.
// has_more says that there are keys it did not return, or did not count.
func (m *Machine) txnGet(g *messages.TxnGet) (*messages.TxnGetResult, *messages.Error) {
	result := &messages.TxnGetResult{}
	budget := &m.write.answer
	if by, one := g.GetSelector().GetBy().(*messages.Selector_Key); one {
		r, ok := m.current(keyOf(by.Key))
		if !ok {
			return result, nil
		}
		result.Count = 1
		if !g.GetCountOnly() {
			if !budget.fits(r, g.GetKeysOnly()) {
				return nil, messages.NewError(messages.Code_CODE_TOO_LARGE, "the answer is more than %d bytes", messages.AnswerBytesMax).
					WithField("get").WithLimit(messages.AnswerBytesMax)
			}
			result.Records = append(result.Records, m.shown(r, g.GetKeysOnly()))
		}
		return result, nil
	}
	lo, hi := store.Bounds(g.GetSelector())
	full := g.GetCountOnly()
	m.scan(lo, hi, g.GetDescending(), func(r store.Rec) bool {
		if result.Count == messages.CommandKeysMax {
			result.HasMore = true
			return false
		}
		result.Count++
		if full = full || len(result.Records) == int(g.GetLimit()) || !budget.fits(r, g.GetKeysOnly()); full {
			result.HasMore = !g.GetCountOnly()
			return true
		}
		result.Records = append(result.Records, m.shown(r, g.GetKeysOnly()))
		return true
	})
	return result, nil
}

// shown returns a record of the latest state with the time it has left.
func (m *Machine) shown(r store.Rec, keysOnly bool) *messages.Record {
	p := r.Proto(keysOnly)
	if left, ok := m.remaining(r, true); ok {
		p.RemainingTtlMs = &left
	}
	return p
}

// atElement puts the place of a list's element before the field of an error.
func atElement(err *messages.Error, list string, i int) *messages.Error {
	at := fmt.Sprintf("%s[%d]", list, i)
	if f := err.Detail.GetField(); f != "" {
		at += "." + f
	}
	return err.WithField(at)
}
