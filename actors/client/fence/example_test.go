package fence_test

import (
	"errors"
	"fmt"

	"github.com/concord-kv/concord/actors/client/fence"
)

// A resource in memory that only the newest holder may change.
func ExampleMemory() {
	var guard fence.Memory
	balance := 0
	deposit := func(token fence.Token, amount int) error {
		return guard.Do("account", token, func() error {
			balance += amount
			return nil
		})
	}
	fmt.Println(deposit(33, 10)) // the holder of token 33 is then paused
	fmt.Println(deposit(34, 20)) // and replaced
	err := deposit(33, 1000)     // it wakes up
	fmt.Println(errors.Is(err, fence.ErrStale), balance)
	// Output:
	// <nil>
	// <nil>
	// true 30
}

// A row that only the newest holder may change: run Accept in the transaction of the
// write, before it, and roll back when it refuses.
func ExampleSQL() {
	guard := fence.SQL{}
	schema, _ := guard.Schema()
	fmt.Println(schema)
	// With a *sql.Tx:
	//
	//	if err := guard.Accept(ctx, tx, "reports", held.Token()); err != nil {
	//		return err // the caller rolls back
	//	}
	//	_, err := tx.ExecContext(ctx, "UPDATE reports SET ...")

	// Output:
	// CREATE TABLE IF NOT EXISTS concord_fences (subject TEXT PRIMARY KEY, token BIGINT NOT NULL)
}
