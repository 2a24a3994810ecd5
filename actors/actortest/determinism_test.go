package actortest

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/sim"
)

var (
	simSameSeeds = flag.Int("sim.same.seeds", 5, "how many seeds the tests of same bytes run")
	simSameRuns  = flag.Int("sim.same.runs", 3, "how often they run each")
	simSameLines = flag.Int("sim.same.lines", 0, "of each script they run so many lines, and then its last, which mends all; 0: all of it")
)

// TestSimDeterministic: the trace of a seed is the same in every run, byte for byte, on
// one processor and on two. The long form: -sim.same.seeds=50 -sim.same.runs=20, also
// with -race.
func TestSimDeterministic(t *testing.T) {
	first := *simFrom
	if first == 0 {
		first = 1
	}
	same(t, first, sim.Generate)
}

// TestRecipesDeterministic says the same of clients that use recipes, whose goroutines
// are many: a seed that failed fails again.
func TestRecipesDeterministic(t *testing.T) { same(t, *recipeFrom, sim.GenerateRecipes) }

// same runs seeds again and again and compares the traces. A seed that differs does not
// keep the others from being run.
func same(t *testing.T, first uint64, generate func(uint64) (sim.Options, []string)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	traced, start := 0, time.Now()
	for seed := first; seed < first+uint64(*simSameSeeds); seed++ {
		var want []byte
		for i := range *simSameRuns {
			runtime.GOMAXPROCS(1 + i%2)
			var b bytes.Buffer
			opts, script := generate(seed)
			opts.Trace = &b
			if n := *simSameLines; n > 0 && n < len(script)-1 {
				script = append(script[:n:n], script[len(script)-1])
			}
			if r := sim.Run(t, opts, script); r.Failure != nil {
				t.Errorf("seed %d: %v", seed, r.Failure)
				break
			}
			if i == 0 {
				want, traced = b.Bytes(), traced+b.Len()
			} else if !bytes.Equal(b.Bytes(), want) {
				t.Errorf("seed %d: run %d has another trace: %s", seed, i, difference(want, b.Bytes()))
				break
			}
		}
		if testing.Verbose() {
			t.Logf("seed %d: %d bytes, %v since the start", seed, len(want), time.Since(start).Round(time.Second))
		}
	}
	t.Logf("%d seeds, %d runs each, %d bytes of trace", *simSameSeeds, *simSameRuns, traced)
}

// difference shows where two traces part.
func difference(a, b []byte) string {
	x, y := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	at := 0
	for at < min(len(x), len(y)) && bytes.Equal(x[at], y[at]) {
		at++
	}
	part := func(lines [][]byte, from, to int) []byte {
		return bytes.Join(lines[min(from, len(lines)):min(to, len(lines))], []byte("\n"))
	}
	return fmt.Sprintf("at line %d\n%s\n---- or\n%s", at, part(x, max(0, at-20), at+5), part(y, at, at+5))
}
