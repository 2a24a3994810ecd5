package memlog

import (
	"fmt"
	"strings"
)

// String tells the state of every replica, one a line, for a test that failed.
func (c *Cluster) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tick %d\n", c.now)
	for _, id := range c.ids {
		n := c.nodes[id]
		voting, nonVoting := c.Members(id)
		fmt.Fprintf(&b, "replica %d: %s term %d vote %d leader %d, log %d..%d commit %d applied %d, members %v+%v",
			id, n.role, n.mem.term, n.mem.vote, n.leaderID, n.mem.base, n.mem.last(), n.mem.commit, n.applied, voting, nonVoting)
		for _, f := range []struct {
			is   bool
			name string
		}{
			{!n.up, "down"}, {n.removed, "removed"}, {n.syncing, "syncing"}, {n.stalled, "stalled"},
			{n.paused, "paused"}, {n.held, "held"}, {n.up && !n.replica.ready, "not ready"},
		} {
			if f.is {
				b.WriteString(", " + f.name)
			}
		}
		b.WriteByte('\n')
		for _, m := range n.members.all() {
			if p := n.peers[m]; p != nil {
				fmt.Fprintf(&b, "  of %d: match %d next %d active %t\n", m, p.match, p.next, p.active)
			}
		}
	}
	return b.String()
}

func (r role) String() string {
	return [...]string{"follower", "pre-candidate", "candidate", "leader"}[r]
}
