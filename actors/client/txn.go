package client

import (
	"context"

	"github.com/concord-kv/concord/messages"
)

// TxnOptions of Txn.
type TxnOptions struct {
	IdempotencyKey string
}

// TxnResult is the answer to a transaction.
type TxnResult struct {
	// Succeeded says whether every compare held, so which branch ran.
	Succeeded bool
	// Responses of that branch, in order.
	Responses []*messages.TxnOpResult
	Revision  uint64
	Replayed  bool
}

// Txn runs a transaction: all of a branch or nothing, at one revision. That a compare
// fails is no error.
func (c *Client) Txn(ctx context.Context, t *messages.Txn, opts TxnOptions) (TxnResult, error) {
	r, err := c.Write(ctx, &messages.Write{IdempotencyKey: opts.IdempotencyKey, Op: &messages.Write_Txn{Txn: t}})
	if err != nil {
		return TxnResult{}, err
	}
	return TxnResult{
		Succeeded: r.GetTxn().GetSucceeded(), Responses: r.GetTxn().GetResponses(),
		Revision: r.GetRevision(), Replayed: r.GetReplayed(),
	}, nil
}

// If begins a transaction: If(compares...).Then(operations...).Else(operations...).
func If(compares ...*messages.Compare) *TxnBuilder {
	return &TxnBuilder{txn: messages.Txn{Compares: compares}}
}

// TxnBuilder collects a transaction.
type TxnBuilder struct{ txn messages.Txn }

// Then adds operations to run when every compare holds.
func (b *TxnBuilder) Then(ops ...*messages.TxnOp) *TxnBuilder {
	b.txn.Success = append(b.txn.Success, ops...)
	return b
}

// Else adds operations to run when a compare does not hold.
func (b *TxnBuilder) Else(ops ...*messages.TxnOp) *TxnBuilder {
	b.txn.Failure = append(b.txn.Failure, ops...)
	return b
}

// Data returns the transaction as plain data. The builder must not be used after.
func (b *TxnBuilder) Data() *messages.Txn { return &b.txn }

// Commit sends it.
func (b *TxnBuilder) Commit(ctx context.Context, c *Client) (TxnResult, error) {
	return c.Txn(ctx, b.Data(), TxnOptions{})
}

// OpGet reads up to limit keys inside a transaction; a single key needs no limit.
func OpGet(s *messages.Selector, limit uint32) *messages.TxnOp {
	return &messages.TxnOp{Op: &messages.TxnOp_Get{Get: &messages.TxnGet{Selector: s, Limit: limit}}}
}

// OpPut stores a record inside a transaction.
func OpPut(key string, value []byte, opts PutOptions) *messages.TxnOp {
	return &messages.TxnOp{Op: &messages.TxnOp_Put{Put: PutOf(key, value, opts)}}
}

// OpDelete deletes keys inside a transaction.
func OpDelete(s *messages.Selector, opts DeleteOptions) *messages.TxnOp {
	return &messages.TxnOp{Op: &messages.TxnOp_Delete{Delete: &messages.Delete{Selector: s, PrevKv: opts.Prev}}}
}

// OpTouch lengthens a TTL inside a transaction.
func OpTouch(key string, ttlMs int64) *messages.TxnOp {
	return &messages.TxnOp{Op: &messages.TxnOp_Touch{Touch: &messages.Touch{Key: []byte(key), TtlMs: ttlMs}}}
}

// Shorter names of the compare operators.
const (
	Equal          = messages.CompareOperator_COMPARE_OPERATOR_EQUAL
	NotEqual       = messages.CompareOperator_COMPARE_OPERATOR_NOT_EQUAL
	Less           = messages.CompareOperator_COMPARE_OPERATOR_LESS
	LessOrEqual    = messages.CompareOperator_COMPARE_OPERATOR_LESS_OR_EQUAL
	Greater        = messages.CompareOperator_COMPARE_OPERATOR_GREATER
	GreaterOrEqual = messages.CompareOperator_COMPARE_OPERATOR_GREATER_OR_EQUAL
)

// Exists holds when the key is there, or, with false, when it is not.
func Exists(key string, exists bool) *messages.Compare {
	return &messages.Compare{Key: []byte(key), Operator: Equal, Target: &messages.Compare_Exists{Exists: exists}}
}

// Value compares the value; only Equal and NotEqual.
func Value(key string, op messages.CompareOperator, value []byte) *messages.Compare {
	return &messages.Compare{Key: []byte(key), Operator: op, Target: &messages.Compare_Value{Value: &messages.Compare_NullableBytes{Value: value}}}
}

// Version compares the number of writes since creation; 0 for an absent key.
func Version(key string, op messages.CompareOperator, n uint64) *messages.Compare {
	return &messages.Compare{Key: []byte(key), Operator: op, Target: &messages.Compare_Version{Version: n}}
}

// CreateRevision compares the revision that created the key; 0 for an absent key.
func CreateRevision(key string, op messages.CompareOperator, n uint64) *messages.Compare {
	return &messages.Compare{Key: []byte(key), Operator: op, Target: &messages.Compare_CreateRevision{CreateRevision: n}}
}

// ModRevision compares the revision of the last write; 0 for an absent key.
func ModRevision(key string, op messages.CompareOperator, n uint64) *messages.Compare {
	return &messages.Compare{Key: []byte(key), Operator: op, Target: &messages.Compare_ModRevision{ModRevision: n}}
}

// LeaseOf compares the attached lease; 0 is none. Only Equal and NotEqual.
func LeaseOf(key string, op messages.CompareOperator, id uint64) *messages.Compare {
	return &messages.Compare{Key: []byte(key), Operator: op, Target: &messages.Compare_LeaseId{LeaseId: id}}
}

// Field compares a member of a JSON value, outermost name first, with JSON text. A value
// that is not JSON or has no such member counts as null.
func Field(key string, path []string, op messages.CompareOperator, json []byte) *messages.Compare {
	x := &messages.Extractor{By: &messages.Extractor_Path_{Path: &messages.Extractor_Path{Names: path}}}
	return &messages.Compare{Key: []byte(key), Operator: op, Target: &messages.Compare_Field_{Field: &messages.Compare_Field{Extractor: x, Json: json}}}
}

// TTL compares the remaining milliseconds; a key without a lease counts as null, which
// is below every number.
func TTL(key string, op messages.CompareOperator, ms int64) *messages.Compare {
	return &messages.Compare{Key: []byte(key), Operator: op, Target: &messages.Compare_TtlMs{TtlMs: &messages.Compare_NullableInt64{Value: ms}}}
}
