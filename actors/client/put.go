package client

import (
	"context"
	"time"

	"github.com/concord-kv/concord/messages"
)

// PutOptions of Put, PutMany and the puts of a transaction.
type PutOptions struct {
	// LeaseID attaches the key to a lease. 0 attaches to none and detaches a key that
	// was attached.
	LeaseID uint64
	// TTL of this key alone, in milliseconds; not together with LeaseID.
	TTL         time.Duration
	ContentType string
	Metadata    map[string][]byte
	// NoPrev leaves out the record that was replaced.
	NoPrev bool
	// IgnoreValue keeps the value that is there, IgnoreLease the lease; the key must
	// exist.
	IgnoreValue, IgnoreLease bool
	// IdempotencyKey makes the write safe to repeat by another process.
	IdempotencyKey string
}

// PutResult is the answer to a put.
type PutResult struct {
	Revision uint64
	// Prev is the record that was replaced; nil when there was none.
	Prev *messages.Record
	// Replayed says that the write had been applied by an earlier attempt.
	Replayed bool
}

// PutOf returns a put as data, for PutMany and transactions.
func PutOf(key string, value []byte, opts PutOptions) *messages.Put {
	p := new(messages.Put)
	fillPut(p, key, value, opts)
	return p
}

func fillPut(p *messages.Put, key string, value []byte, opts PutOptions) {
	p.Key, p.Value, p.LeaseId, p.TtlMs = []byte(key), value, opts.LeaseID, opts.TTL.Milliseconds()
	p.ContentType, p.Metadata, p.PrevKv = opts.ContentType, metadataEntries(opts.Metadata), !opts.NoPrev
	p.IgnoreValue, p.IgnoreLease = opts.IgnoreValue, opts.IgnoreLease
}

// Put stores value under key and returns the revision that holds it. value must not be
// changed until Put returns, and not after an error with outcome unknown.
func (c *Client) Put(ctx context.Context, key string, value []byte, opts PutOptions) (PutResult, error) {
	o := &struct {
		write messages.Write
		oneof messages.Write_Put
		put   messages.Put
	}{}
	fillPut(&o.put, key, value, opts)
	o.oneof.Put = &o.put
	o.write.IdempotencyKey, o.write.Op = opts.IdempotencyKey, &o.oneof
	r, err := c.Write(ctx, &o.write)
	if err != nil {
		return PutResult{}, err
	}
	return PutResult{Revision: r.GetRevision(), Prev: r.GetPut().GetPrev(), Replayed: r.GetReplayed()}, nil
}

// PutManyResult is the answer to PutMany.
type PutManyResult struct {
	Revision uint64
	// Prev has one entry for each put, in order: nil where there was none.
	Prev     []*messages.Record
	Replayed bool
}

// PutMany stores up to 500 records at one revision, all or none.
func (c *Client) PutMany(ctx context.Context, puts ...*messages.Put) (PutManyResult, error) {
	r, err := c.Write(ctx, &messages.Write{Op: &messages.Write_PutMany{PutMany: &messages.PutMany{Puts: puts}}})
	if err != nil {
		return PutManyResult{}, err
	}
	result := PutManyResult{Revision: r.GetRevision(), Replayed: r.GetReplayed()}
	for _, p := range r.GetPutMany().GetPuts() {
		result.Prev = append(result.Prev, p.GetPrev())
	}
	return result, nil
}

// DeleteOptions of Delete.
type DeleteOptions struct {
	// Prev asks for the records that were deleted.
	Prev           bool
	IdempotencyKey string
}

// DeleteResult is the answer to a delete.
type DeleteResult struct {
	// Revision of the delete; the current one when nothing was deleted.
	Revision uint64
	Deleted  uint64
	Prev     []*messages.Record
	Replayed bool
}

// Delete removes the keys of a selector, 10,000 at most, at one revision. Deleting
// nothing is no error.
func (c *Client) Delete(ctx context.Context, s *messages.Selector, opts DeleteOptions) (DeleteResult, error) {
	r, err := c.Write(ctx, &messages.Write{IdempotencyKey: opts.IdempotencyKey, Op: &messages.Write_Delete{
		Delete: &messages.Delete{Selector: s, PrevKv: opts.Prev},
	}})
	if err != nil {
		return DeleteResult{}, err
	}
	d := r.GetDelete()
	return DeleteResult{Revision: r.GetRevision(), Deleted: d.GetDeleted(), Prev: d.GetPrev(), Replayed: r.GetReplayed()}, nil
}

// TouchResult is the answer to Touch.
type TouchResult struct {
	Revision  uint64
	Remaining time.Duration
}

// Touch lengthens the TTL of a key, never shortens it; a key without one gets it.
func (c *Client) Touch(ctx context.Context, key string, ttl time.Duration) (TouchResult, error) {
	r, err := c.Write(ctx, &messages.Write{Op: &messages.Write_Touch{
		Touch: &messages.Touch{Key: []byte(key), TtlMs: ttl.Milliseconds()},
	}})
	if err != nil {
		return TouchResult{}, err
	}
	return TouchResult{Revision: r.GetRevision(), Remaining: milliseconds(r.GetTouch().GetRemainingTtlMs())}, nil
}
