package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/messages"
)

// Writes, reads, a transaction.
func Example() {
	c, err := client.New(client.Config{Endpoints: []string{"127.0.0.1:7411"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	put, err := c.Put(ctx, "/config/colour", []byte("blue"), client.PutOptions{})
	switch messages.OutcomeOf(err) {
	case messages.Outcome_OUTCOME_NOT_APPLIED:
		log.Fatal("it is safe to try again: ", err)
	case messages.Outcome_OUTCOME_UNKNOWN:
		log.Fatal("it may have been applied: ", err)
	}
	got, err := c.Get(ctx, "/config/colour", client.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	swapped, err := client.If(client.ModRevision("/config/colour", client.Equal, got.Record.GetModRevision())).
		Then(client.OpPut("/config/colour", []byte("red"), client.PutOptions{})).
		Else(client.OpGet(client.KeySelector("/config/colour"), 0)).
		Commit(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(put.Revision, swapped.Succeeded)
}

// A watch goes on over lost connections; it ends only for a reason, such as compacted.
func ExampleClient_ListAndWatch() {
	c, err := client.New(client.Config{Endpoints: []string{"127.0.0.1:7411"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	list, w, err := c.ListAndWatch(ctx, client.PrefixSelector("/config/"), client.ListOptions{}, client.WatchOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	for _, r := range list.Records {
		fmt.Printf("%s = %s\n", r.Key, r.Value)
	}
	for batch, err := range w.Batches(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range batch.Events {
			fmt.Printf("%d: %s = %s\n", e.Revision, e.Record.Key, e.Record.Value)
		}
	}
}

// A session keeps a lease alive. The work stops when the lease is lost.
func ExampleClient_Keepalives() {
	c, err := client.New(client.Config{Endpoints: []string{"127.0.0.1:7411"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	s, err := session.Open(ctx, c, session.Options{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	if _, err := c.Put(ctx, "/workers/me", nil, client.PutOptions{LeaseID: s.LeaseID()}); err != nil {
		log.Fatal(err)
	}
	err = lease.With(ctx, s.Lease(), func(ctx context.Context) error {
		<-ctx.Done() // the work
		return ctx.Err()
	})
	fmt.Println(err)
}
