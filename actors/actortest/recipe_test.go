package actortest

import (
	"flag"
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
	var all sim.RecipeStats
	var virtual time.Duration
	s := generatedRecipes.sweep(t, *recipeFrom, func(begun uint64) bool { return begun < seeds }, func(r sim.Result) {
		all.Add(r.Recipes)
		virtual += r.Time
	})
	t.Logf("%v, in %v, %v of the world's time: %+v", s, s.took.Round(time.Second), virtual.Round(time.Second), all)
	// What did not happen was not tested.
	if seeds >= 25 && !t.Failed() && (all.Waited == 0 || all.Losses == 0 || all.Ends == 0 || all.Overlaps == 0 || all.Refused == 0 ||
		all.Writes == 0 || all.Joined == 0 || all.Renewed == 0 || all.Cancelled == 0) {
		t.Errorf("something never happened: %+v", all)
	}
}
