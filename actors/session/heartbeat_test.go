package session

import (
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestHeartbeatsAreRarerWithManyConnections: what ten thousand idle connections cost is
// bounded, and few ones hear of a node that is gone as soon as before.
func TestHeartbeatsAreRarerWithManyConnections(t *testing.T) {
	var limits Limits
	limits.setDefaults()
	a := newAdmission(limits)
	rate := 0.0
	for n := int64(1); n <= messages.ConnectionsPerNodeDefault; n++ {
		if !a.connect() {
			t.Fatalf("connection %d is not admitted", n)
		}
		ms := a.heartbeatMs()
		rate += 1000 / float64(ms)
		want := max(messages.HeartbeatMs, min(n, 5*messages.HeartbeatMs))
		if ms != want {
			t.Fatalf("connection %d has %d ms between heartbeats, want %d", n, ms, want)
		}
	}
	if rate > 4_000 {
		t.Errorf("%.0f heartbeats a second", rate)
	}
}
