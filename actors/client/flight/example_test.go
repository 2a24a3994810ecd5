package flight_test

import (
	"context"
	"fmt"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client/flight"
)

func Example() {
	_, s, end := recipetest.Embedded()
	defer end()

	g := flight.New(s)
	r, err := g.Do(context.Background(), "price of tea", func(ctx context.Context, r *flight.Run) ([]byte, error) {
		// However many ask at this moment, in however many processes, this runs once.
		return []byte("4.20"), nil
	})
	fmt.Println(string(r.Value), r.Joined, err)
	// Output: 4.20 false <nil>
}
