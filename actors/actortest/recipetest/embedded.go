package recipetest

import (
	"context"
	"log"
	"os"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/actors/node"
)

// Embedded starts a node in this process, a client of it and a session, for examples.
func Embedded() (*client.Client, *session.Session, func()) {
	dir, err := os.MkdirTemp("", "concord")
	if err != nil {
		log.Fatal(err)
	}
	n, err := node.Start(node.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(client.Config{Endpoints: []string{"embedded"}, Dialer: n.Dialer()})
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.Open(context.Background(), c, session.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return c, s, func() {
		_ = s.Close(context.Background())
		_ = c.Close()
		_ = n.Close()
		_ = os.RemoveAll(dir)
	}
}
