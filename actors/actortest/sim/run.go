package sim

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// Result is what became of a run.
type Result struct {
	Failure    *Failure // nil: every promise was kept
	Steps      int
	Time       time.Duration
	Revisions  uint64
	Transcript []string
	Recipes    RecipeStats
	Watches    WatchStats
}

// Run runs a script in a world of its own, in a bubble. It does not fail t.
func Run(t *testing.T, opts Options, script []string) (r Result) {
	synctest.Test(t, func(*testing.T) {
		w := New(opts)
		for _, line := range script {
			if w.Failure() != nil {
				break
			}
			w.Do(line)
		}
		r = Result{Steps: w.steps, Time: w.now, Revisions: w.truth.revision()}
		before := w.Failure()
		w.Close()
		if f := w.Failure(); f != nil && f.Invariant == "I8" || before != nil && w.stuck {
			// The bubble may panic now, about goroutines: say first what has happened.
			fmt.Fprintf(os.Stderr, "sim: seed %d: %v\n", opts.Seed, w.Failure())
		}
		r.Failure, r.Transcript, r.Recipes, r.Watches = w.Failure(), w.history.lines, w.recipes.stats, w.watchStats
	})
	return r
}
