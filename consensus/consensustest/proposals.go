package consensustest

import (
	"strings"
	"time"

	"github.com/concord-kv/concord/messages"
)

const (
	notApplied = messages.Outcome_OUTCOME_NOT_APPLIED
	unknown    = messages.Outcome_OUTCOME_UNKNOWN
)

// Completed means applied on the replica that proposed, with that entry's results.
func completedIsAppliedHere(c *cluster) {
	c.startAll()
	for range 5 {
		for id := range c.logs {
			a := c.put(id)
			if got := c.rec[id].All()[a.place()]; got.Payload != a.payload {
				c.t.Fatalf("%s was answered at the place of %s", a.payload, got.Payload)
			}
		}
	}
	for id := range c.logs {
		c.barrier(id)
		all := c.rec[id].All()
		if len(all) < 5*len(c.logs) {
			c.t.Fatalf("replica %d applied %d entries, want %d", id, len(all), 5*len(c.logs))
		}
		for i, a := range c.rec[1].All() {
			if all[i] != a {
				c.t.Fatalf("place %d is %v at replica %d and %v at replica 1", i, all[i], id, a)
			}
		}
	}
}

// What a call cannot mean is refused at once, and so is everything after Close.
func refusesWhatCannotBe(c *cluster) {
	c.startAll()
	for _, timeout := range []time.Duration{0, -time.Second} {
		c.wantError(c.wait(c.propose(1, c.name(), timeout)), messages.Code_CODE_INVALID_ARGUMENT, notApplied)
		c.wantError(c.read(1, timeout), messages.Code_CODE_INVALID_ARGUMENT, notApplied)
	}
	c.stop(1)
	c.wantError(c.wait(c.propose(1, c.name(), time.Second)), messages.Code_CODE_NODE_STOPPING, notApplied)
	c.wantError(c.read(1, time.Second), messages.Code_CODE_NODE_STOPPING, notApplied)
	c.wantError(c.logs[1].TransferLeader(1), messages.Code_CODE_NODE_STOPPING, notApplied)
	c.wantError(c.logs[1].RequestSnapshot(time.Second), messages.Code_CODE_NODE_STOPPING, notApplied)
	c.stop(1)
	if n := len(c.rec[1].All()); n != 0 {
		c.t.Fatalf("%d refused entries were applied", n)
	}
}

// Bytes in flight are bounded by a refusal, never by waiting.
func boundsBytesInFlight(c *cluster) {
	c.startAll()
	c.Hold(1, c.rec[1])
	var taken []*answer
	var refused *answer
	for refused == nil {
		a := c.propose(1, c.name()+strings.Repeat("x", 500), 10*time.Second)
		switch {
		case a.ended():
			refused = a
		case len(taken) > 100:
			c.t.Fatal("nothing is refused")
		default:
			taken = append(taken, a)
		}
	}
	c.wantError(refused.err(), messages.Code_CODE_OVERLOADED, notApplied)
	c.Release(1, c.rec[1])
	for _, a := range taken {
		if err := c.wait(a); err != nil {
			c.t.Fatal(err)
		}
	}
	c.Wait("room again", func() bool { return c.logs[1].Status().ProposedBytes == 0 })
	// One entry larger than the bound may be in flight alone.
	if err := c.wait(c.propose(1, c.name()+strings.Repeat("x", 8<<10), 10*time.Second)); err != nil {
		c.t.Fatal(err)
	}
	if c.rec[1].Has(refused.payload) {
		c.t.Fatal("the refused entry was applied")
	}
}

// Entries come in batches of any size; indexes rise (the recorder insists) with gaps.
func batchesAndGaps(c *cluster) {
	c.startAll()
	c.put(1)
	if first := c.rec[1].All()[0]; first.Index == 1 {
		c.t.Fatal("the first entry has index 1: a leader's empty entry comes before it")
	}
	c.Hold(1, c.rec[1])
	var all []*answer
	for range 200 {
		all = append(all, c.propose(1, c.name(), 10*time.Second))
	}
	c.Release(1, c.rec[1])
	for _, a := range all {
		if err := c.wait(a); err != nil {
			c.t.Fatal(err)
		}
	}
	if n := c.rec[1].largestBatch(); n < 2 {
		c.t.Fatalf("200 waiting entries were applied %d by %d", n, n)
	}
	for i, a := range c.rec[1].All()[1:] {
		if a.Payload != all[i].payload {
			c.t.Fatalf("%s was proposed before %s and applied after it", all[i].payload, a.Payload)
		}
	}
}

// A listener hears first that nobody leads, then who does.
func listenerHearsOfNobodyFirst(c *cluster) {
	c.startAll()
	for id := range c.logs {
		leader := c.leader(id)
		c.Wait("the listener to hear of the leader", func() bool {
			told := c.heard[id].all()
			return len(told) > 0 && told[len(told)-1][0] == leader
		})
		told := c.heard[id].all()
		if told[0][0] != 0 {
			c.t.Fatalf("replica %d heard first of leader %d: %v", id, told[0][0], told)
		}
		for i := 1; i < len(told); i++ {
			if told[i][1] < told[i-1][1] {
				c.t.Fatalf("replica %d heard of term %d after %d", id, told[i][1], told[i-1][1])
			}
		}
	}
}

// A deadline that passes before Apply has returned leaves the outcome unknown, and
// the entry may well be applied.
func timeoutIsUnknown(c *cluster) {
	c.startAll()
	c.Hold(1, c.rec[1])
	a := c.propose(1, c.name(), 100*time.Millisecond)
	c.wantError(c.wait(a), messages.Code_CODE_TIMEOUT, unknown)
	c.Release(1, c.rec[1])
	c.put(1)
	if !c.rec[1].Has(a.payload) {
		c.t.Fatal("the entry was committed: it should be applied")
	}
}
