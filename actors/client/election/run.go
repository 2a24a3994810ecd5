package election

import (
	"context"
	"time"

	"github.com/concord-kv/concord/actors/client/lease"
)

// resignWait bounds how long Run waits for the confirmation that the term is over.
const resignWait = time.Second

// Run campaigns, leads with fn and resigns when fn has returned, panicked or ended its
// goroutine: not before, so that no two lead at once. fn's context ends with ctx and
// with the loss of the term; after a loss Run returns a *lease.LostError that carries
// fn's error, so errors.Is(err, lease.ErrLost) always means that fn may not have led
// alone. Whoever wants to lead again calls it again.
func (e *Election) Run(ctx context.Context, value []byte, fn func(ctx context.Context, t *Term) error) error {
	t, err := e.Campaign(ctx, value)
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignWait)
		defer cancel()
		_ = t.Resign(bounded)
	}()
	return lease.With(ctx, t.Lease(), func(ctx context.Context) error { return fn(ctx, t) })
}
