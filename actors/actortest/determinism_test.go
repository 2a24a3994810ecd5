package actortest

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
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
	bytesTraced := 0
	for seed := first; seed < first+uint64(*simSameSeeds); seed++ {
		var want [sha256.Size]byte
		for i := range *simSameRuns {
			runtime.GOMAXPROCS(1 + i%2)
			h := sha256.New()
			n := &counter{w: h}
			opts, script := sim.Generate(seed)
			opts.Trace = n
			r := sim.Run(t, opts, script)
			if r.Failure != nil {
				t.Fatalf("seed %d: %v", seed, r.Failure)
			}
			got := [sha256.Size]byte(h.Sum(nil))
			if i == 0 {
				want, bytesTraced = got, bytesTraced+n.bytes
			} else if got != want {
				t.Fatalf("seed %d: run %d has another trace: %s", seed, i, difference(t, seed))
			}
		}
	}
	t.Logf("%d seeds, %d runs each, %d bytes of trace", *simSameSeeds, *simSameRuns, bytesTraced)
}

type counter struct {
	w     io.Writer
	bytes int
}

func (c *counter) Write(b []byte) (int, error) {
	c.bytes += len(b)
	return c.w.Write(b)
}

// difference runs a seed until two traces differ and shows where.
func difference(t *testing.T, seed uint64) string {
	var first []byte
	for i := range 50 {
		runtime.GOMAXPROCS(1 + i%2)
		var b bytes.Buffer
		opts, script := sim.Generate(seed)
		opts.Trace = &b
		sim.Run(t, opts, script)
		if first == nil {
			first = b.Bytes()
			continue
		}
		x, y := bytes.Split(first, []byte("\n")), bytes.Split(b.Bytes(), []byte("\n"))
		for j := range min(len(x), len(y)) {
			if !bytes.Equal(x[j], y[j]) {
				from := max(0, j-12)
				return fmt.Sprintf("at line %d\n%s\n---- or\n%s", j, bytes.Join(x[from:min(j+4, len(x))], []byte("\n")), bytes.Join(y[j:min(j+4, len(y))], []byte("\n")))
			}
		}
	}
	return "and it did not happen again"
}
