package clustertest

import (
	"testing"
	"time"
)

// TestCablesArePulled: the links of members in networks of their own go dead, the
// leader's and a follower's, in turn and at once, and lose and delay what they carry.
// Whoever is cut off hears nothing, not even that nobody is there.
func TestCablesArePulled(t *testing.T) {
	ns := InNamespaces(t, 3)
	if ns == nil {
		return
	}
	c := NewCluster(t, ClusterOptions{Nodes: 3, Namespaces: ns})
	watch := StartWatch(c, "cables")
	w := StartWorkload(c, 7, 4)
	w.WaitWrites(100)
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	step := func(name string, do func()) {
		began := time.Now()
		do()
		w.WaitWrites(writesMeanwhile)
		c.WaitServing()
		t.Logf("fault: %s: over and %d writes later after %v", name, writesMeanwhile, time.Since(began).Round(time.Millisecond))
	}
	for range rounds {
		step("cable-of-the-leader", func() {
			leader := c.Leader().ID
			ns.Pull(leader)
			w.WaitWrites(writesMeanwhile)
			ns.Plug(leader)
		})
		step("cable-of-a-follower", func() {
			follower := c.Followers()[0].ID
			ns.Pull(follower)
			w.WaitWrites(writesMeanwhile)
			ns.Plug(follower)
		})
		step("every-cable", func() {
			for _, id := range c.IDs() {
				ns.Pull(id)
			}
			pause(t.Context(), 2*time.Second) // longer than an election
			for _, id := range c.IDs() {
				ns.Plug(id)
			}
		})
		step("bad-cables", func() {
			shaped := true
			for _, id := range c.IDs() {
				shaped = ns.Shape(id, "delay 5ms 5ms loss 3% duplicate 3%") && shaped
			}
			w.WaitWrites(writesMeanwhile)
			for _, id := range c.IDs() {
				ns.Shape(id, "")
			}
			if !shaped {
				t.Log("this machine has no netem: nothing was lost or delayed")
			}
		})
	}
	w.Stop()
	t.Logf("%d operations, errors seen through the SDK: %v", w.History.Len(), w.Errors)
	c.CheckDigests()
	w.History.Check(t)
	watch.CheckAcked(w.History.Acked)
}
