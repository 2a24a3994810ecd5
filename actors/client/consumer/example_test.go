package consumer_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/consumer"
)

func Example() {
	c, _, end := recipetest.Embedded()
	defer end()
	ctx := context.Background()
	for _, key := range []string{"/orders/1", "/orders/2", "/orders/3"} {
		if _, err := c.Put(ctx, key, nil, client.PutOptions{}); err != nil {
			fmt.Println(err)
			return
		}
	}

	// Each time the process starts it goes on behind what it had handled. What handle
	// fails at comes again.
	work := func(stopAt string) error {
		opts := consumer.Options{FromBeginning: true, Checkpoint: -1}
		return consumer.Run(ctx, c, "billing", client.PrefixSelector("/orders/"), opts, func(_ context.Context, r consumer.Revision) error {
			for _, e := range r.Events {
				if string(e.Record.Key) == stopAt {
					return errors.New("stopped at " + stopAt)
				}
				fmt.Println("billed", string(e.Record.Key))
			}
			return nil
		})
	}
	fmt.Println(work("/orders/2"))
	fmt.Println(work("/orders/3"))
	// Output:
	// billed /orders/1
	// stopped at /orders/2
	// billed /orders/2
	// stopped at /orders/3
}
