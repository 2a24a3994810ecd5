package registration_test

import (
	"context"
	"fmt"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/registration"
)

func Example() {
	c, _, end := recipetest.Embedded()
	defer end()
	ctx := context.Background()

	r, err := registration.Open(ctx, c, "/services/mail/1", []byte("10.0.0.7:25"), registration.Options{Renew: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	list, _ := c.List(ctx, client.PrefixSelector("/services/mail/"), client.ListOptions{})
	fmt.Println(len(list.Records), string(list.Records[0].Value))
	fmt.Println(r.Close(ctx))
	list, _ = c.List(ctx, client.PrefixSelector("/services/mail/"), client.ListOptions{})
	fmt.Println(len(list.Records))
	// Output:
	// 1 10.0.0.7:25
	// <nil>
	// 0
}
