package mutex_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/mutex"
)

// Work that one process at a time may do, on a key of the same cluster: the compare
// keeps out a holder that does not know yet that it was replaced.
func Example() {
	c, s, end := recipetest.Embedded()
	defer end()
	ctx := context.Background()

	m, err := mutex.New(s, "nightly report")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = m.Do(ctx, func(ctx context.Context, h *mutex.Held) error {
		put := client.OpPut("/report", []byte("done"), client.PutOptions{})
		r, err := client.If(h.Compare()).Then(put).Commit(ctx, c)
		if err == nil {
			fmt.Println("written:", r.Succeeded)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// written: true
	// <nil>
}

// Not waiting for a lock that another has.
func ExampleMutex_TryLock() {
	_, s, end := recipetest.Embedded()
	defer end()
	ctx := context.Background()
	m, _ := mutex.New(s, "job")
	h, err := m.TryLock(ctx)
	fmt.Println(err)
	_, err = m.TryLock(ctx) // holds are not reentrant
	fmt.Println(errors.Is(err, mutex.ErrBusy))
	fmt.Println(h.Unlock(ctx))
	// Output:
	// <nil>
	// true
	// <nil>
}
