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
	recipeSeeds = flag.Uint64("recipe.seeds", 100, "how many seeds TestRecipes runs; the long form is 2000")
	recipeFrom  = flag.Uint64("recipe.from", 1, "its first seed")
	recipeSeed  = flag.Uint64("recipe.seed", 0, "run this seed alone")
	recipeTrace = flag.String("recipe.trace", "", "the file that gets the trace of -recipe.seed")
)

var generatedRecipes = generated{"TestRecipes", "recipe.seed", sim.GenerateRecipes}

// TestRecipes has clients use the recipes of the SDK, with all that befalls processes
// and clusters, and holds the promises P1 to P12 of leases. A failure prints the seed
// that replays it.
func TestRecipes(t *testing.T) {
	if *recipeSeed != 0 {
		generatedRecipes.run(t, *recipeSeed, *recipeTrace)
		return
	}
	seeds := *recipeSeeds
	if testing.Short() {
		seeds = min(seeds, 25)
	}
	var mu sync.Mutex
	var all sim.RecipeStats
	var virtual time.Duration
	failed := 0
	start, next := time.Now(), *recipeFrom
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if *simStop && t.Failed() || next >= *recipeFrom+seeds {
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
					r := generatedRecipes.run(t, seed, "")
					mu.Lock()
					all.Add(r.Recipes)
					virtual += r.Time
					if r.Failure != nil {
						failed++
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("seeds %d to %d, %d failed, in %v, %v of the world's time: %+v", *recipeFrom, next-1, failed, time.Since(start).Round(time.Second), virtual.Round(time.Second), all)
	// What did not happen was not tested.
	if seeds >= 25 && !t.Failed() && (all.Waited == 0 || all.Losses == 0 || all.Ends == 0 || all.Overlaps == 0 || all.Refused == 0 ||
		all.Writes == 0 || all.Joined == 0 || all.Renewed == 0 || all.Cancelled == 0) {
		t.Errorf("something never happened: %+v", all)
	}
}
