package actortest

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/concord-kv/concord/actors/actortest/sim"
)

var (
	simSameSeeds = flag.Int("sim.same.seeds", 5, "how many seeds TestSimDeterministic runs")
	simSameRuns  = flag.Int("sim.same.runs", 3, "how often it runs each")
)

// TestSimDeterministic: the trace of a seed is the same in every run, byte for byte, on
// one processor and on two. The long form: -sim.same.seeds=50 -sim.same.runs=20, also
// with -race.
func TestSimDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	first := *simFrom
	if first == 0 {
		first = 1
	}
	traced := 0
	for seed := first; seed < first+uint64(*simSameSeeds); seed++ {
		var want []byte
		for i := range *simSameRuns {
			runtime.GOMAXPROCS(1 + i%2)
			var b bytes.Buffer
			opts, script := sim.Generate(seed)
			opts.Trace = &b
			if r := sim.Run(t, opts, script); r.Failure != nil {
				t.Fatalf("seed %d: %v", seed, r.Failure)
			}
			if i == 0 {
				want, traced = b.Bytes(), traced+b.Len()
			} else if !bytes.Equal(b.Bytes(), want) {
				t.Fatalf("seed %d: run %d has another trace: %s", seed, i, difference(want, b.Bytes()))
			}
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
