package consensustest

import (
	"time"

	"github.com/concord-kv/concord/messages"
)

// Leading does not mean having applied: a new leader passes a barrier only once it has
// applied what was acknowledged before. A log may also not let a replica lead that knows
// of entries that it has not applied, as dragonboat does.
func leaderHasNotApplied(c *cluster) {
	c.startAll()
	c.put(1)
	from := c.leader(1)
	to := from%3 + 1
	other := to%3 + 1
	c.barrier(to)
	held := c.rec[to]
	c.Hold(to, held)
	c.t.Cleanup(func() { c.Release(to, held) }) // it could not be closed
	a := c.put(from)
	for range 10 {
		leader := c.leader(other)
		if leader == to {
			break
		}
		_ = c.logs[leader].TransferLeader(to)   // best effort: asked for until it is done
		_ = c.read(other, 300*time.Millisecond) // some time
		c.later()
	}
	if held.Has(a.payload) {
		c.t.Fatalf("replica %d applies nothing and has applied %s", to, a.payload)
	}
	if err := c.read(to, 300*time.Millisecond); err == nil {
		c.t.Fatalf("replica %d has not applied %s, and passed a barrier", to, a.payload)
	}
	c.Release(to, held)
	c.barrier(to)
	if !held.Has(a.payload) {
		c.t.Fatalf("replica %d passed a barrier without %s", to, a.payload)
	}
}

// While the lead is handed over proposals are dropped or their answers lost. Each ends
// once; what was completed is there once, what was not applied never is, and what is
// unknown is there once or not at all.
func transferUnderLoad(c *cluster) {
	c.startAll()
	c.put(1)
	var all []*answer
	for round := range 6 {
		for id := uint64(1); id <= 3; id++ {
			for range 20 {
				all = append(all, c.propose(id, c.name(), 2*time.Second))
			}
		}
		to := uint64(round%3 + 1)
		if leader := c.leader(1); leader != 0 && leader != to {
			_ = c.logs[leader].TransferLeader(to) // best effort
		}
		for id := uint64(1); id <= 3; id++ {
			for range 20 {
				all = append(all, c.propose(id, c.name(), 2*time.Second))
			}
		}
		_ = c.wait(all[len(all)-1]) // whatever became of it
	}
	for _, a := range all {
		_ = c.wait(a) // judged below
	}
	for id := uint64(1); id <= 3; id++ {
		c.barrier(id)
		times := map[string]int{}
		for _, e := range c.rec[id].All() {
			times[e.Payload]++
		}
		for _, a := range all {
			n, err := times[a.payload], a.err()
			switch {
			case n > 1:
				c.t.Fatalf("%s was applied %d times at replica %d", a.payload, n, id)
			case err == nil && n == 0:
				c.t.Fatalf("%s was completed and is not at replica %d", a.payload, id)
			case err != nil && messages.OutcomeOf(err) == notApplied && n > 0:
				c.t.Fatalf("%s was answered %v and is at replica %d", a.payload, err, id)
			}
		}
	}
}

// A replica that began without a vote and was promoted comes back from a restart as the
// member that it is, with all that it had applied.
func promotedMemberRestarts(c *cluster) {
	c.startAll()
	c.put(1)
	const wait = 5 * time.Second
	c.change("adding 4", func(done func(error)) { c.logs[1].AddNonVoting(4, c.Address(4), 0, wait, done) })
	c.rec[4], c.heard[4] = NewRecorder(), &listener{}
	c.logs[4] = c.Join(4, true, c.rec[4], c.heard[4])
	c.waitReady(4)
	c.change("promoting 4", func(done func(error)) { c.logs[1].AddReplica(4, c.Address(4), 0, wait, done) })
	c.barrier(4)
	before := c.rec[4].All()
	c.stop(4)
	c.rec[4], c.heard[4] = NewRecorder(), &listener{}
	c.logs[4] = c.Rejoin(4, true, c.rec[4], c.heard[4])
	c.waitReady(4)
	after := c.rec[4].All()
	if len(after) < len(before) {
		c.t.Fatalf("replica 4 is ready with %d of %d entries", len(after), len(before))
	}
	if m := c.membership(4); m.Voting[4] == "" {
		c.t.Fatalf("the members are %v", m)
	}
	// Its vote counts: of four voters three must be there, and one of the three is it.
	gone := uint64(2)
	if c.leader(1) == gone {
		gone = 3
	}
	c.stop(gone)
	a := c.put(4)
	c.barrier(1)
	if !c.rec[1].Has(a.payload) {
		c.t.Fatalf("replica 1 passed a barrier without %s", a.payload)
	}
}
