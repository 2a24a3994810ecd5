package client

import (
	"context"

	"github.com/concord-kv/concord/messages"
)

// ConditionalResult is the answer to a write that has a condition.
type ConditionalResult struct {
	// Done says whether the condition held, so whether the write was applied.
	Done     bool
	Revision uint64
	// Current is the record that was there: the one replaced or deleted when Done, else
	// the one that made the condition fail; nil when there was none.
	Current  *messages.Record
	Replayed bool
}

// Create stores value only if the key does not exist.
func (c *Client) Create(ctx context.Context, key string, value []byte, opts PutOptions) (ConditionalResult, error) {
	return c.putIf(ctx, Exists(key, false), key, value, opts)
}

// Replace stores value only if the key exists.
func (c *Client) Replace(ctx context.Context, key string, value []byte, opts PutOptions) (ConditionalResult, error) {
	return c.putIf(ctx, Exists(key, true), key, value, opts)
}

// UpdateIf stores value only if the key was last written at modRevision; 0 for a key
// that does not exist.
func (c *Client) UpdateIf(ctx context.Context, key string, modRevision uint64, value []byte, opts PutOptions) (ConditionalResult, error) {
	return c.putIf(ctx, ModRevision(key, Equal, modRevision), key, value, opts)
}

// PutIf stores value only if a compare holds, of this key or of another.
func (c *Client) PutIf(ctx context.Context, condition *messages.Compare, key string, value []byte, opts PutOptions) (ConditionalResult, error) {
	return c.putIf(ctx, condition, key, value, opts)
}

func (c *Client) putIf(ctx context.Context, condition *messages.Compare, key string, value []byte, opts PutOptions) (ConditionalResult, error) {
	b := If(condition).Then(OpPut(key, value, opts)).Else(OpGet(KeySelector(key), 0))
	return c.conditional(ctx, b, opts.IdempotencyKey)
}

// DeleteIf deletes a key only if it was last written at modRevision.
func (c *Client) DeleteIf(ctx context.Context, key string, modRevision uint64, opts DeleteOptions) (ConditionalResult, error) {
	s := KeySelector(key)
	b := If(Exists(key, true), ModRevision(key, Equal, modRevision)).Then(OpDelete(s, opts)).Else(OpGet(s, 0))
	return c.conditional(ctx, b, opts.IdempotencyKey)
}

func (c *Client) conditional(ctx context.Context, b *TxnBuilder, key string) (ConditionalResult, error) {
	r, err := c.Txn(ctx, b.Data(), TxnOptions{IdempotencyKey: key})
	if err != nil {
		return ConditionalResult{}, err
	}
	result := ConditionalResult{Done: r.Succeeded, Revision: r.Revision, Replayed: r.Replayed}
	if len(r.Responses) == 0 {
		return result, nil
	}
	switch a := r.Responses[0].GetAnswer().(type) {
	case *messages.TxnOpResult_Put:
		result.Current = a.Put.GetPrev()
	case *messages.TxnOpResult_Delete:
		result.Current = firstRecord(a.Delete.GetPrev())
	case *messages.TxnOpResult_Get:
		result.Current = firstRecord(a.Get.GetRecords())
	}
	return result, nil
}

func firstRecord(records []*messages.Record) *messages.Record {
	if len(records) == 0 {
		return nil
	}
	return records[0]
}
