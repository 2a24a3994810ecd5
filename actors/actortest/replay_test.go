package actortest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/sim"
)

var (
	simShrink = flag.Duration("sim.shrink", 30*time.Second, "how long a failing script is shrunk")
	simStop   = flag.Bool("sim.stop", true, "stop at the first failure")
)

// generated is a test whose runs are made from seeds.
type generated struct {
	test     string
	seedFlag string
	generate func(uint64) (sim.Options, []string)
}

// run runs one seed and says all about its failure: what was broken, at which commit, the
// shrunk script, and the line that replays it. trace names the file that gets the trace;
// empty for none.
func (g generated) run(t *testing.T, seed uint64, trace string) sim.Result {
	t.Helper()
	opts, script := g.generate(seed)
	if trace != "" {
		f, err := os.Create(trace)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		opts.Trace = f
	}
	r := sim.Run(t, opts, script)
	if r.Failure == nil {
		return r
	}
	opts.Trace = nil
	short := script
	if *simShrink > 0 {
		short = sim.Shrink(script, func(s []string) string {
			if f := sim.Run(t, opts, s).Failure; f != nil {
				return f.Invariant
			}
			return ""
		}, *simShrink)
	}
	t.Errorf("seed %d, commit %s: %v\nshrunk to %d of %d lines:\n%s\nreplay: %s",
		seed, commit(), r.Failure, len(short), len(script), strings.Join(short, "\n"), g.replay(seed))
	return r
}

// swept tells which seeds a sweep ran.
type swept struct {
	first, next uint64
	failed      int
	took        time.Duration
}

// String names the seeds, and how many failed.
func (s swept) String() string {
	return fmt.Sprintf("seeds %d to %d, %d failed", s.first, s.next-1, s.failed)
}

// sweep runs the seeds from first on, on all processors, while more, which is told how
// many were begun, says so; with -sim.stop until one fails. each is called with one
// result at a time.
func (g generated) sweep(t *testing.T, first uint64, more func(begun uint64) bool, each func(sim.Result)) swept {
	t.Helper()
	s, start := swept{first: first, next: first}, time.Now()
	var mu sync.Mutex
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if *simStop && t.Failed() || !more(s.next-first) {
			return 0, false
		}
		s.next++
		return s.next - 1, true
	}
	t.Run("seeds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("worker", func(t *testing.T) {
				t.Parallel()
				for seed, ok := take(); ok; seed, ok = take() {
					r := g.run(t, seed, "")
					mu.Lock()
					each(r)
					if r.Failure != nil {
						s.failed++
					}
					mu.Unlock()
				}
			})
		}
	})
	s.took = time.Since(start)
	return s
}

// replay is the line that runs a seed again on what it failed on.
func (g generated) replay(seed uint64) string {
	seen := commit()
	return fmt.Sprintf("git checkout %s && go test ./actors/actortest -run '^%s$' -count=1 -v -%s=%d",
		strings.TrimSuffix(seen, "-dirty"), g.test, g.seedFlag, seed)
}

// commit is what was built, as far as anybody knows; "-dirty" says that it was changed.
func commit() string {
	if out, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// TestReplayLine: the line that a failure prints names the commit, the test and the seed,
// and a failing seed fails again at the same step for the same reason.
func TestReplayLine(t *testing.T) {
	line := generatedSim.replay(12)
	for _, part := range []string{"git checkout ", "'^TestSim$'", "-sim.seed=12"} {
		if !strings.Contains(line, part) {
			t.Errorf("%q does not say %q", line, part)
		}
	}
	broken := func(seed uint64) *sim.Failure {
		opts, script := sim.GenerateRecipes(seed)
		script = append(script[:len(script)/4:len(script)/4], "expect leader n9")
		return sim.Run(t, opts, script).Failure
	}
	for seed := uint64(1); seed <= 3; seed++ {
		a, b := broken(seed), broken(seed)
		if a == nil || b == nil || a.Error() != b.Error() {
			t.Errorf("seed %d: %v, and then %v", seed, a, b)
		}
	}
}
