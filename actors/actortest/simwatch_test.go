package actortest

import (
	"flag"
	"runtime"
	"sync"
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
	var mu sync.Mutex
	var all sim.WatchStats
	failed := 0
	start, next, end := time.Now(), *watchFrom, *watchFrom+*watchSeeds
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if *simStop && t.Failed() || next >= end {
			return 0, false
		}
		next++
		return next - 1, true
	}
	t.Run("seeds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("worker", func(t *testing.T) {
				t.Parallel()
				for seed, ok := take(); ok; seed, ok = take() {
					r := generatedWatches.run(t, seed, "")
					mu.Lock()
					all.Add(r.Watches)
					if r.Failure != nil {
						failed++
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("seeds %d to %d, %d failed, in %v; watches: %+v", *watchFrom, next-1, failed, time.Since(start).Round(time.Second), all)
	// What did not happen was not tested.
	if *watchSeeds >= 12 && !t.Failed() && (all.Begun == 0 || all.Restored == 0 || all.Cut == 0 || all.Compacted == 0 ||
		all.Ended == 0 || all.Stalled == 0 || all.Moved == 0) {
		t.Errorf("something never happened: %+v", all)
	}
}
