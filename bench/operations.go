package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/concord-kv/concord/actors/client"
)

// listRecords is how many records a list reads, below a prefix of their own.
const listRecords = 1_000

// List reads a thousand records, in as many pages as that takes.
func (t *Target) List(k Keys) Op {
	listed := Keys{Prefix: "list/", Count: listRecords, ValueBytes: k.ValueBytes}
	var filled atomic.Bool
	return func(ctx context.Context, c int, _ uint64) error {
		if !filled.Load() {
			// The first of the warm-up write them, all of them the same.
			if err := t.Fill(ctx, listed); err != nil {
				return err
			}
			filled.Store(true)
		}
		n := 0
		for _, err := range t.of(c).Records(ctx, client.PrefixSelector(listed.Prefix), client.ListOptions{Limit: listRecords}) {
			if err != nil {
				return err
			}
			n++
		}
		if n != listRecords {
			return fmt.Errorf("a list of %d records has %d", listRecords, n)
		}
		return nil
	}
}

// Txn compares the revision of a key and puts it; each client has a key of its own, so
// that no compare fails.
func (t *Target) Txn(k Keys, clients int) Op {
	value, revisions := k.value(), make([]uint64, clients)
	return func(ctx context.Context, c int, _ uint64) error {
		key := fmt.Sprintf("txn/%08d", c)
		if revisions[c] == 0 {
			r, err := t.of(c).Get(ctx, key, client.GetOptions{})
			if err != nil {
				return err
			}
			revisions[c] = r.Record.GetModRevision()
		}
		r, err := client.If(client.ModRevision(key, client.Equal, revisions[c])).
			Then(client.OpPut(key, value, client.PutOptions{NoPrev: true})).Commit(ctx, t.of(c))
		if err != nil {
			revisions[c] = 0 // it may have been applied
			return err
		}
		if !r.Succeeded {
			revisions[c] = 0
			return errors.New("the compare failed")
		}
		revisions[c] = r.Revision
		return nil
	}
}

// Mixed is one put for every four linearizable gets.
func (t *Target) Mixed(k Keys) Op {
	put, get := t.Put(k), t.Get(k, false)
	return func(ctx context.Context, c int, n uint64) error {
		if n%5 == 0 {
			return put(ctx, c, n)
		}
		return get(ctx, c, n)
	}
}
