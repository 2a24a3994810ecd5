package actortest

import (
	"flag"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/sim"
)

var (
	simSeeds = flag.Int("sim.seeds", 0, "how many seeds TestSim runs; 0: as many as fit into -sim.time, 100 at most unless that is set")
	simFrom  = flag.Uint64("sim.from", 0, "the first seed; 0: today's, so that each run is a fresh one")
	simSeed  = flag.Uint64("sim.seed", 0, "run this seed alone")
	simTime  = flag.Duration("sim.time", 0, "how long TestSim runs if -sim.seeds is 0; default 20 s with -short, else 90 s")
	simTrace = flag.String("sim.trace", "", "the file that gets the trace of -sim.seed")
)

// simSeedsDefault fresh seeds are what continuous integration runs.
const simSeedsDefault = 100

var generatedSim = generated{"TestSim", "sim.seed", sim.Generate}

// TestSim runs generated scripts. A failure prints the seed, the commit and the shrunk
// script; -sim.seed replays it.
func TestSim(t *testing.T) {
	if *simSeed != 0 {
		generatedSim.run(t, *simSeed, *simTrace)
		return
	}
	first := *simFrom
	if first == 0 {
		first = uint64(time.Now().Unix()/86_400) << 20 // a new one each day, the same all day
	}
	length, seeds := *simTime, uint64(*simSeeds)
	if length == 0 && seeds == 0 {
		length, seeds = 90*time.Second, simSeedsDefault
		if testing.Short() {
			length = 20 * time.Second
		}
	}
	var count, steps int
	var watches sim.WatchStats
	var virtual time.Duration
	start := time.Now()
	s := generatedSim.sweep(t, first, func(begun uint64) bool {
		return (seeds == 0 || begun < seeds) && (length == 0 || time.Since(start) <= length)
	}, func(r sim.Result) {
		count, steps, virtual = count+1, steps+r.Steps, virtual+r.Time
		watches.Add(r.Watches)
	})
	t.Logf("%v: %.0f seeds a minute, %.0f steps a second, %.0f times real time; watches: %+v",
		s, float64(count)/s.took.Minutes(), float64(steps)/s.took.Seconds(), virtual.Seconds()/s.took.Seconds(), watches)
}

// TestSimGRPC runs fewer seeds with gRPC between clients and nodes.
func TestSimGRPC(t *testing.T) {
	seeds := 30
	if testing.Short() {
		seeds = 8
	}
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		opts, script := sim.Generate(seed)
		opts.GRPC = true
		if r := sim.Run(t, opts, script); r.Failure != nil {
			t.Fatalf("seed %d: %v", seed, r.Failure)
		}
	}
}
