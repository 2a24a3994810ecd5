package e2e

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/clustertest/port"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) {
	node.InstallLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// startNode starts a node; it ends with the test. An empty address takes a free port.
func startNode(t testing.TB, dir, address string) *node.Node {
	t.Helper()
	if address == "" {
		var err error
		if address, err = port.Address(); err != nil {
			t.Fatal(err)
		}
	}
	config := messages.DefaultClusterConfig()
	config.LeaseTtlMinMs = 200
	n, err := node.Start(node.Config{Dir: dir, ClientAddress: address, Bootstrap: config, ExpiryTick: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func newClient(t testing.TB, endpoints ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Endpoints: endpoints, Name: t.Name(), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
