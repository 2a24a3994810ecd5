package clustertest

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// Client returns an SDK client of the node; it is closed when the test ends.
func (n *Node) Client() *client.Client {
	n.t.Helper()
	c, err := client.New(client.Config{Endpoints: []string{n.Listen}, Name: n.t.Name(), Timeout: 30 * time.Second})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = c.Close() })
	return c
}

// WaitReady waits until the node answers a linearizable read.
func (n *Node) WaitReady(c *client.Client) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Revision(ctx); err != nil {
		n.t.Fatalf("the node does not serve: %v\n%s", err, n.Output())
	}
}

// Prefix selects keys by prefix.
func Prefix(p string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(p)}}
}

// Deadline returns a context of the test that ends after d.
func Deadline(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Command is a run of the concord binary.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(Binary(t), args...)
}
