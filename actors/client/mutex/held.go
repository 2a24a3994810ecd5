package mutex

import (
	"context"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/fence"
	"github.com/concord-kv/concord/actors/client/internal/line"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/messages"
)

// Held is one acquisition of a lock. It may be used by many goroutines.
type Held struct{ hold *line.Hold }

// Lease is the holder's signal: stop when its context ends, look at Err before a step
// that matters. It warns; it does not protect.
func (h *Held) Lease() *lease.Lease { return h.hold.Lease() }

// Token is the fencing token of this acquisition: higher than that of every one before
// it. It stays the same for as long as the lock is held.
func (h *Held) Token() fence.Token { return fence.Token(h.hold.Token()) }

// Compare holds in a Txn of the same cluster if and only if this acquisition still has
// the lock when the transaction is applied: the strictest guard there is.
func (h *Held) Compare() *messages.Compare {
	return client.CreateRevision(h.hold.Key(), client.Equal, h.hold.Token())
}

// Remaining is how long the holder may go on if nothing more is confirmed: what must be
// done alone must be finished by then.
func (h *Held) Remaining() time.Duration {
	if h.Lease().Err() != nil {
		return 0
	}
	return h.hold.Session().Remaining()
}

// Check asks the cluster whether the session still lives; use it after a pause is
// suspected. nil means that the lock was held when the request was applied.
func (h *Held) Check(ctx context.Context) error {
	if err := h.Lease().Err(); err != nil {
		return err
	}
	if err := h.hold.Session().Check(ctx); err != nil && h.Lease().Err() == nil {
		return err
	}
	return h.Lease().Err()
}

// Unlock ends the lease, which does not signal, and frees the lock if this acquisition
// still has it: never one of a later holder. Call it when the work has stopped, not
// before. nil means that it is free. After an error the session goes on freeing it in the
// background, also if ctx is over; Unlock may be repeated. A lock that was lost gives
// its *lease.LostError.
func (h *Held) Unlock(ctx context.Context) error { return h.hold.Release(ctx) }
