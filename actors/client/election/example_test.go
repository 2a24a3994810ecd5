package election_test

import (
	"context"
	"fmt"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client/election"
)

func Example() {
	_, s, end := recipetest.Embedded()
	defer end()
	ctx := context.Background()

	e, err := election.New(s, "scheduler")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = e.Run(ctx, []byte("10.0.0.7:9000"), func(ctx context.Context, t *election.Term) error {
		// Lead until ctx ends. Give t.Token() to what is written to.
		l, err := e.Leader(ctx)
		if err == nil {
			fmt.Printf("%s leads, %v\n", l.Value, l.Epoch == t.Epoch())
		}
		return err
	})
	fmt.Println(err)
	for l, err := range e.Observe(ctx) {
		fmt.Println("nobody leads:", l.Nobody(), err)
		break
	}
	// Output:
	// 10.0.0.7:9000 leads, true
	// <nil>
	// nobody leads: true <nil>
}
