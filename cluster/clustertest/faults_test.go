package clustertest

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	clusterFaults = flag.String("cluster.faults", "", "names of the faults that happen, with commas; none: all")
	clusterRounds = flag.Int("cluster.rounds", 0, "rounds of faults; 0: each fault once")
	clusterSeed   = flag.Uint64("cluster.seed", 0, "seed of the order of faults and of the load; 0: by the clock")
	clusterNodes  = flag.Int("cluster.nodes", 3, "nodes of the cluster that faults happen to")
)

// TestFaults does to a cluster under load what machines and networks do. Through all of
// it no acknowledged write is lost or takes effect twice, what clients saw is
// linearizable, watches have every revision once, a lease that is renewed is not lost
// and one that is not ends in time, and in the end all members have the same state.
func TestFaults(t *testing.T) {
	rounds := *clusterRounds
	seed := *clusterSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	if rounds > 0 {
		PauseMax = 30 * time.Second
	}
	t.Logf("replay: go test ./cluster/clustertest -run TestFaults -cluster.rounds=%d -cluster.seed=%d -cluster.nodes=%d -cluster.faults=%s", rounds, seed, *clusterNodes, *clusterFaults)
	r := rand.New(rand.NewPCG(seed, 1))
	faults := chosenFaults(rounds > 0)
	order := r.Perm(len(faults))
	if testing.Short() {
		order = order[:min(4, len(order))]
	}
	for rounds > len(order) {
		order = append(order, r.Perm(len(faults))...)
	}
	if rounds > 0 {
		order = order[:rounds]
	}

	c := NewCluster(t, ClusterOptions{Nodes: *clusterNodes, Network: true})
	watches := []*WatchCheck{StartWatch(c, "a"), StartWatch(c, "b")}
	leases := StartLeases(c)
	w := StartWorkload(c, seed, 6)
	w.WaitWrites(100)
	var trouble time.Duration
	for i, f := range order {
		fault := faults[f]
		began := time.Now()
		fault.Do(c, w, r)
		w.WaitWrites(100)
		took := time.Since(began)
		trouble = max(trouble, took)
		c.WaitServing()
		t.Logf("fault: %s (round %d of %d nodes): over and 100 writes later after %v", fault.Name, i, *clusterNodes, took.Round(time.Millisecond))
		if t.Failed() {
			return
		}
	}
	w.Stop()
	t.Logf("rounds: %d; %d operations, %d writes acknowledged, errors seen through the SDK: %v", len(order), w.History.Len(), w.Writes.Load(), w.Errors)
	leases.Check(trouble)
	leases.stop()
	c.CheckDigests()
	w.History.Check(t)
	ctx := Deadline(t, 2*time.Minute)
	for _, k := range watches {
		k.CheckAcked(w.History.Acked)
		for _, m := range c.Members() {
			k.CheckList(ctx, m)
		}
	}
}

// chosenFaults are those that the flag names, else all of the form.
func chosenFaults(long bool) (chosen []Fault) {
	names := strings.Split(*clusterFaults, ",")
	for _, f := range Faults {
		if *clusterFaults == "" && (long || !f.Long) || slices.Contains(names, f.Name) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}
