package actortest

import (
	"flag"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/sim"
)

var (
	watchSeeds = flag.Uint64("simwatch.seeds", 12, "how many seeds TestSimWatches runs; the long form is 200")
	watchFrom  = flag.Uint64("simwatch.from", 1, "its first seed")
	watchSeed  = flag.Uint64("simwatch.seed", 0, "run this seed alone")
	watchTrace = flag.String("simwatch.trace", "", "the file that gets the trace of -simwatch.seed")
)

var generatedWatches = generated{"TestSimWatches", "simwatch.seed", sim.GenerateWatches}

// TestSimWatches runs scripts that are about watches: snapshots under them, one-way cuts,
// compaction before they have everything, consumers that stand still, nodes that go. Its
// seeds are the same each time, so that what must have happened has.
func TestSimWatches(t *testing.T) {
	if *watchSeed != 0 {
		generatedWatches.run(t, *watchSeed, *watchTrace)
		return
	}
	var all sim.WatchStats
	s := generatedWatches.sweep(t, *watchFrom, func(begun uint64) bool { return begun < *watchSeeds },
		func(r sim.Result) { all.Add(r.Watches) })
	t.Logf("%v, in %v; watches: %+v", s, s.took.Round(time.Second), all)
	// What did not happen was not tested.
	if *watchSeeds >= 12 && !t.Failed() && (all.Begun == 0 || all.Restored == 0 || all.Cut == 0 || all.Compacted == 0 ||
		all.Ended == 0 || all.Stalled == 0 || all.Moved == 0) {
		t.Errorf("something never happened: %+v", all)
	}
}
