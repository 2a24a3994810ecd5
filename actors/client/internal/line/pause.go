package line

import (
	"context"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// Pause waits on a clock; false when ctx was over first.
func Pause(ctx context.Context, clock client.Clock, d time.Duration) bool {
	over := make(chan struct{})
	t := clock.AfterFunc(d, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}
