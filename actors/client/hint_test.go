package client

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/concord-kv/concord/messages"
)

// A node says who leads: when the connection is over the client goes there first, and
// not to an endpoint that it does not know.
func TestFollowsTheHint(t *testing.T) {
	bubble(t, func(t *testing.T, net fakeNet) {
		net["n2"], net["n3"] = newFakeNode(net["n1"].cluster), newFakeNode(net["n1"].cluster)
		net["stranger"] = newFakeNode(net["n1"].cluster)
		c := newTestClient(t, net, nil)
		defer c.Close()
		put := func(key string) (at string) {
			t.Helper()
			before := map[string]int{}
			for name, n := range net {
				before[name] = len(n.took())
			}
			if _, err := c.Put(context.Background(), key, nil, PutOptions{}); err != nil {
				t.Fatal(err)
			}
			for name, n := range net {
				if len(n.took()) > before[name] {
					return name
				}
			}
			return ""
		}
		at := put("a")
		for range 3 {
			for _, leader := range []string{"n1", "n2", "n3"} {
				if leader == at {
					continue
				}
				n := net[at]
				n.mu.Lock()
				for _, hint := range []string{leader, "stranger"} {
					for _, s := range n.streams {
						_ = s.Send(&messages.ServerMessage{Message: &messages.ServerMessage_LeaderHint{LeaderHint: &messages.LeaderHint{LeaderId: 1, Endpoint: hint}}})
					}
				}
				n.mu.Unlock()
				synctest.Wait()
				n.cut()
				if got := put("b"); got != leader {
					t.Fatalf("the leader was said to be at %s; the client went from %s to %s", leader, at, got)
				}
				at = leader
			}
		}
	})
}
