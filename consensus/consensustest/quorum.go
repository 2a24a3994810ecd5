package consensustest

import (
	"time"

	"github.com/concord-kv/concord/messages"
)

// loseQuorum stops everyone but the leader.
func (c *cluster) loseQuorum() (leader uint64) {
	c.t.Helper()
	leader = c.leader(1)
	for id := range c.logs {
		if id != leader {
			c.stop(id)
		}
	}
	return leader
}

// Without a quorum an entry is first unknown, until the leader has noticed that it
// leads nobody; after that it is dropped, and what was dropped is never applied.
func lostQuorum(c *cluster) {
	c.startAll()
	before := c.put(1)
	leader := c.loseQuorum()
	a := c.propose(leader, c.name(), 100*time.Millisecond)
	c.wantError(c.wait(a), messages.Code_CODE_TIMEOUT, unknown)
	if err := c.read(leader, 100*time.Millisecond); err == nil {
		c.t.Fatal("a read barrier was passed without a quorum")
	}
	c.Wait("the leader to step down", func() bool { return c.logs[leader].Status().LeaderID == 0 })
	var dropped []string
	for range 20 {
		a := c.propose(leader, c.name(), 5*time.Second)
		c.wantError(c.wait(a), messages.Code_CODE_NO_LEADER, notApplied)
		dropped = append(dropped, a.payload)
	}
	c.wantError(c.read(leader, time.Second), messages.Code_CODE_NO_LEADER, notApplied)
	for id := range c.logs {
		if id != leader {
			c.start(id)
		}
	}
	for id := range c.logs {
		c.waitReady(id)
	}
	after := c.put(1)
	for id := range c.logs {
		c.barrier(id)
		if !c.rec[id].Has(before.payload) || !c.rec[id].Has(after.payload) {
			c.t.Fatalf("replica %d lost an acknowledged entry", id)
		}
		for _, p := range dropped {
			if c.rec[id].Has(p) {
				c.t.Fatalf("%s was dropped and applied at replica %d", p, id)
			}
		}
	}
}

// Close ends what waits; nobody knows what becomes of it.
func closeLeavesUnknown(c *cluster) {
	c.startAll()
	c.put(1)
	leader := c.loseQuorum()
	var all []*answer
	for range 10 {
		all = append(all, c.propose(leader, c.name(), time.Hour))
	}
	c.stop(leader)
	for _, a := range all {
		if !a.ended() {
			c.t.Fatalf("%s was not answered when Close had returned", a.payload)
		}
		if err := a.err(); messages.OutcomeOf(err) == unknown {
			c.wantError(err, messages.Code_CODE_NODE_STOPPING, unknown)
		} else {
			// It came in after the leader had stepped down.
			c.wantError(err, messages.CodeOf(err), notApplied)
		}
	}
}

// A barrier is passed only when everything acknowledged before is applied here,
// whoever leads.
func barrierWaitsForApply(c *cluster) {
	c.startAll()
	id := uint64(c.Replicas()) // hold the last one
	from := uint64(1)
	if c.Replicas() == 1 {
		c.Hold(id, c.rec[id])
		a := c.propose(from, c.name(), 10*time.Second)
		b := &answer{t: c.t, payload: "a barrier"}
		c.logs[id].ReadIndex(200*time.Millisecond, func(err error) { b.end(nil, err) })
		if err := c.wait(b); err == nil && !c.rec[id].Has(a.payload) && a.ended() {
			c.t.Fatal("the barrier was passed before the entry was applied")
		}
		c.Release(id, c.rec[id])
		if err := c.wait(a); err != nil {
			c.t.Fatal(err)
		}
		c.barrier(id)
		return
	}
	c.Hold(id, c.rec[id])
	a := c.put(from)
	b := &answer{t: c.t, payload: "a barrier"}
	c.logs[id].ReadIndex(300*time.Millisecond, func(err error) { b.end(nil, err) })
	if err := c.wait(b); err == nil {
		c.t.Fatalf("the barrier was passed at replica %d, which applies nothing", id)
	}
	c.Release(id, c.rec[id])
	c.barrier(id)
	if !c.rec[id].Has(a.payload) {
		c.t.Fatalf("replica %d passed a barrier without %s", id, a.payload)
	}
}

// Leadership can be handed over; best effort, so that one asks until it is done.
func transferLeader(c *cluster) {
	c.startAll()
	c.put(1)
	from := c.leader(1)
	to := from%3 + 1
	for range 20 {
		if err := c.logs[from].TransferLeader(to); err != nil {
			c.wantError(err, messages.Code_CODE_OVERLOADED, notApplied)
		}
		c.put(to) // whoever leads now
		c.barrier(1)
		if c.leader(1) == to {
			break
		}
	}
	if got := c.leader(1); got != to {
		c.t.Fatalf("replica %d leads, want %d", got, to)
	}
	c.Wait("the listener to hear of it", func() bool {
		told := c.heard[to].all()
		return told[len(told)-1][0] == to
	})
}
