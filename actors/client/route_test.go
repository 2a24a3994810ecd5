package client

import (
	"testing"
	"time"

	"github.com/concord-kv/concord/messages"
)

// A node that is starting is asked again after a part of what it has taken so far, and one
// that does not answer after twice the wait before: whoever waits for a start is there
// soon after it, whether it takes a second or a minute.
func TestWaitsWhileANodeStarts(t *testing.T) {
	starting := messages.NewError(messages.Code_CODE_NOT_READY, "the node has not caught up with its cluster")
	gone := messages.NewError(messages.Code_CODE_UNAVAILABLE, "connection refused")
	longest := func() uint64 { return 1<<63 - 1 }
	for _, x := range []struct {
		name     string
		err      error
		attempts int // within ten seconds, at least
		last     time.Duration
	}{
		{"starting", starting, 20, 10 * time.Second / redialStartingPart},
		{"gone", gone, 6, redialMax},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRoute([]string{"a:1"}, longest)
			var total, wait time.Duration
			attempts := 0
			for ; total < 10*time.Second; attempts++ {
				r.failed(false, x.err)
				wait = r.wait(longest)
				total += wait
			}
			if attempts < x.attempts || attempts > 100 || wait > x.last {
				t.Errorf("%d attempts, the last after %v", attempts, wait)
			}
			r.failed(true, gone)
			if wait := r.wait(longest); wait > redialBase {
				t.Errorf("the first wait after a connection that served is %v", wait)
			}
		})
	}
}
