package mirror_test

import (
	"context"
	"fmt"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/mirror"
)

func Example() {
	c, _, end := recipetest.Embedded()
	defer end()
	ctx := context.Background()

	m, err := mirror.Open(ctx, c, client.PrefixSelector("/config/"), mirror.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	put, err := c.Put(ctx, "/config/colour", []byte("blue"), client.PutOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// What was written at this revision is in the view, and so is all before it.
	view, err := m.Wait(ctx, put.Revision)
	r, ok := view.Get("/config/colour")
	fmt.Println(string(r.GetValue()), ok, view.Len(), err)
	// Output: blue true 1 <nil>
}
