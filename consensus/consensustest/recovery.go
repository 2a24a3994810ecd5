package consensustest

import (
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// A restarted replica applies everything again, at the same indexes, before it is
// ready; an entry of an earlier boot completes nothing in this one.
func replayThenReady(c *cluster) {
	c.startAll()
	for range 20 {
		c.put(1)
	}
	c.barrier(1)
	before := c.rec[1].All()
	for id := range c.logs {
		c.stop(id)
	}
	for id := range c.logs {
		c.start(id)
	}
	for id := range c.logs {
		c.waitReady(id)
		after := c.rec[id].All()
		if len(after) != len(before) {
			c.t.Fatalf("replica %d is ready with %d of %d entries", id, len(after), len(before))
		}
		for i := range before {
			if before[i] != after[i] {
				c.t.Fatalf("replica %d applied %v again as %v", id, before[i], after[i])
			}
		}
		if c.logs[id].WaitReady(c.t.Context()) != nil {
			c.t.Fatal("a ready replica is not ready")
		}
	}
	a := c.put(1)
	if a.place() != len(before) {
		c.t.Fatalf("%s has place %d after %d entries", a.payload, a.place(), len(before))
	}
}

// Saving goes on beside Apply and saves the state of the freeze.
func savesBesideApply(c *cluster) {
	c.startAll()
	for range 5 {
		c.put(1)
	}
	saved := make(chan int, 1)
	c.rec[1].onSave(nil, func() { saved <- len(c.rec[1].All()) })
	c.Snapshot(1, c.logs[1])
	for range 5 {
		c.put(1)
	}
	c.Wait("the snapshot", func() bool { return len(saved) == 1 })
	if n := <-saved; n < 5 {
		c.t.Fatalf("saved with %d entries", n)
	}
	c.rec[1].onSave(nil, nil)
	c.put(1)
	c.restart(11)
}

// An error of Save abandons that snapshot and nothing else.
func abandonedSnapshot(c *cluster) {
	c.startAll()
	c.put(1)
	c.rec[1].onSave(errSave, nil)
	err := c.logs[1].RequestSnapshot(5 * time.Second)
	c.wantError(err, messages.Code_CODE_UNAVAILABLE, notApplied)
	c.rec[1].onSave(nil, nil)
	c.put(1)
	if err := c.logs[1].RequestSnapshot(5 * time.Second); err != nil {
		c.t.Fatal(err)
	}
	c.restart(2)
	if got := c.rec[1].snapshotsRestored(); len(got) != 1 {
		c.t.Fatalf("restored from %v, want one snapshot", got)
	}
}

// After a snapshot a restart restores it and replays what came after.
func snapshotThenReplay(c *cluster) {
	c.startAll()
	if err := c.logs[1].RequestSnapshot(5 * time.Second); err != nil {
		c.t.Fatalf("a snapshot of nothing: %v", err)
	}
	for range 40 {
		c.put(1)
	}
	at := c.rec[1].All()[39].Index
	for range 2 { // a second one finds nothing new
		if err := c.logs[1].RequestSnapshot(5 * time.Second); err != nil {
			c.t.Fatal(err)
		}
	}
	for range 3 {
		c.put(1)
	}
	c.restart(43)
	if got := c.rec[1].snapshotsRestored(); len(got) != 1 || got[0] != at {
		c.t.Fatalf("restored from %v, want from index %d", got, at)
	}
}

// restart restarts replica 1 and expects it to have count entries.
func (c *cluster) restart(count int) {
	c.t.Helper()
	before := c.rec[1].All()
	if len(before) != count {
		c.t.Fatalf("%d entries were applied, want %d", len(before), count)
	}
	c.stop(1)
	c.start(1)
	c.waitReady(1)
	for i, a := range c.rec[1].All() {
		if a != before[i] {
			c.t.Fatalf("%v came back as %v", before[i], a)
		}
	}
	if got := len(c.rec[1].All()); got != count {
		c.t.Fatalf("%d of %d entries came back", got, count)
	}
}

// A replica that is behind the log is sent a snapshot.
func laggardGetsSnapshot(c *cluster) {
	c.startAll()
	c.put(1)
	c.barrier(3)
	c.stop(3)
	for range 200 {
		c.put(1)
	}
	for _, id := range []uint64{1, 2} {
		c.barrier(id)
		if err := c.logs[id].RequestSnapshot(5 * time.Second); err != nil {
			c.t.Fatal(err)
		}
		c.put(1) // log compaction comes with the next entries
	}
	c.start(3)
	c.waitReady(3)
	c.barrier(3)
	if len(c.rec[3].snapshotsRestored()) == 0 {
		c.t.Fatal("replica 3 was not sent a snapshot")
	}
	c.put(3)
	c.barrier(1)
	one, three := c.rec[1].All(), c.rec[3].All()
	if len(one) != len(three) {
		c.t.Fatalf("replica 1 has %d entries, replica 3 %d", len(one), len(three))
	}
	for i := range one {
		if one[i] != three[i] {
			c.t.Fatalf("place %d: %v and %v", i, one[i], three[i])
		}
	}
}

// Members come, are promoted and go; changes based on an old membership are refused.
func membership(c *cluster) {
	c.startAll()
	c.put(1)
	const wait = 5 * time.Second
	old := c.membership(1)
	if len(old.Voting) != 3 || len(old.NonVoting) != 0 {
		c.t.Fatalf("the first members are %v", old)
	}
	c.change("adding 4", func(done func(error)) { c.logs[1].AddNonVoting(4, c.Address(4), 0, wait, done) })
	c.rec[4], c.heard[4] = NewRecorder(), &listener{}
	c.logs[4] = c.Join(4, true, c.rec[4], c.heard[4])
	c.waitReady(4)
	if len(c.rec[4].All()) == 0 {
		c.t.Fatal("the joined replica is ready without the log")
	}
	stale := c.ask("a stale change", func(done func(error)) { c.logs[1].RemoveReplica(2, old.Order, wait, done) })
	c.wantError(stale, messages.Code_CODE_INVALID_ARGUMENT, notApplied)
	c.change("promoting 4", func(done func(error)) { c.logs[1].AddReplica(4, c.Address(4), 0, wait, done) })
	// Removing a leader would make everybody wait for an election.
	gone := uint64(2)
	for range 50 {
		if c.leader(1) != gone {
			break
		}
		_ = c.logs[gone].TransferLeader(1)
		c.barrier(1)
	}
	c.change("removing 2", func(done func(error)) { c.logs[1].RemoveReplica(gone, 0, wait, done) })
	c.put(4)
	m := c.membership(4)
	if len(m.Voting) != 3 || m.Voting[4] != c.Address(4) || !m.Removed[gone] {
		c.t.Fatalf("the members are %v", m)
	}
	again := c.ask("adding 2 again", func(done func(error)) { c.logs[1].AddReplica(gone, c.Address(gone), 0, wait, done) })
	c.wantError(again, messages.Code_CODE_INVALID_ARGUMENT, notApplied)
}

func (c *cluster) membership(id uint64) consensus.Membership {
	c.t.Helper()
	var m consensus.Membership
	c.change("the membership", func(done func(error)) {
		c.logs[id].Membership(5*time.Second, func(got consensus.Membership, err error) { m = got; done(err) })
	})
	return m
}
