package client

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// While there is no leader every node greets and then refuses. The client must not go
// round them as fast as it can dial. (Found by the simulation: seed 12, a world that
// never came to rest.)
func TestNoLeaderIsNoHotLoop(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		var refused atomic.Int64
		const enough = 2_000
		decide := func(*messages.Operation) (fate, messages.Code) {
			// Without waits no time passes in the bubble: end it some day.
			if refused.Add(1) > enough {
				return serve, 0
			}
			return refuseBefore, messages.Code_CODE_NOT_LEADER
		}
		net["n1"].setDecide(decide)
		for _, name := range []string{"n2", "n3"} {
			net[name] = newFakeNode(net["n1"].cluster)
			net[name].setDecide(decide)
		}
		c := newTestClient(t, net, nil)
		defer c.Close()
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() { _, _ = c.Get(context.Background(), "k", GetOptions{}) })
		}
		calls.Wait() // each until its deadline of 5 s
		if n := refused.Load(); n > enough/2 {
			t.Fatalf("%d operations were sent and refused within 5 s", n)
		}
	})
}
