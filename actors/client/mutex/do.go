package mutex

import (
	"context"
	"time"

	"github.com/concord-kv/concord/actors/client/lease"
)

// unlockWait bounds how long Do waits for the confirmation that the lock is free.
const unlockWait = time.Second

// Do locks, runs fn and unlocks when fn has returned, panicked or ended its goroutine:
// not before, so that no two run at once. fn's context ends with ctx and with the loss
// of the lock; after a loss Do returns a *lease.LostError that carries fn's error, so
// errors.Is(err, lease.ErrLost) always means that fn may not have run alone. A lock that
// was lost while fn ran is released as far as it can be. That the unlock is not
// confirmed is no error: the session goes on with it.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *Held) error) error {
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockWait)
		defer cancel()
		_ = h.Unlock(bounded)
	}()
	return lease.With(ctx, h.Lease(), func(ctx context.Context) error { return fn(ctx, h) })
}
