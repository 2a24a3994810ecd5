package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/actortest/recipetest"
	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/clustertest/port"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) { recipetest.Main(m) }

// houses are the nodes by their address, with the ways in.
var houses = struct {
	sync.Mutex
	doors map[string]*recipetest.Door
	nodes map[string]*node.Node
}{doors: map[string]*recipetest.Door{}, nodes: map[string]*node.Node{}}

// startNode starts a node; it ends with the test. An empty address takes a free port.
func startNode(t testing.TB, dir, address string) *node.Node {
	t.Helper()
	return startNodeWith(t, dir, address, func(*node.Config) {})
}

// startNodeWith is startNode of a node whose configuration is changed.
func startNodeWith(t testing.TB, dir, address string, change func(*node.Config)) *node.Node {
	t.Helper()
	if address == "" {
		var err error
		if address, err = port.Address(); err != nil {
			t.Fatal(err)
		}
	}
	config := messages.DefaultClusterConfig()
	config.LeaseTtlMinMs = 200
	houses.Lock()
	defer houses.Unlock()
	door := houses.doors[address]
	if door == nil {
		var err error
		if door, err = recipetest.NewDoor(); err != nil {
			t.Fatal(err)
		}
		houses.doors[address] = door
	}
	cfg := node.Config{Dir: dir, ClientAddress: address, Bootstrap: config, ExpiryTick: 100 * time.Millisecond}
	if err := door.Open(&cfg); err != nil {
		t.Fatal(err)
	}
	change(&cfg)
	n, err := node.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	houses.nodes[address] = n
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// newClient returns a client of the node that is, or will be, at an address; it goes the
// way of this run.
func newClient(t testing.TB, address string) *client.Client {
	t.Helper()
	houses.Lock()
	door := houses.doors[address]
	houses.Unlock()
	d, endpoint, done, err := door.Dialer(recipetest.Way, func() *node.Node {
		houses.Lock()
		defer houses.Unlock()
		return houses.nodes[address]
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	c, err := client.New(client.Config{Endpoints: []string{endpoint}, Dialer: d, Name: t.Name(), Timeout: 20 * time.Second, SessionTTL: time.Minute})
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
