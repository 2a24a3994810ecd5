package clustertest

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// TestSecurityFewFiles: a node that may open few files takes fewer connections and says so;
// strangers who open as many as they can, at the ports of clients, etcd's and operators, do
// not take those that its log is written to. Whoever is connected is served, and when they
// have gone others are.
func TestSecurityFewFiles(t *testing.T) {
	etcd, admin := FreePort(t), FreePort(t)
	n := NewNode(t, "--etcd", etcd, "--admin", admin)
	n.within = []string{"sh", "-c", `ulimit -n 700 && exec "$@"`, "sh"}
	n.Start()
	c := n.Client()
	n.WaitReady(c)
	if !strings.Contains(n.Output(), "fewer connections of clients are taken") {
		t.Errorf("it does not say that it takes fewer connections:\n%s", n.Output())
	}
	var open []net.Conn
	for _, address := range []string{n.Listen, etcd, admin} {
		for range 400 {
			s, err := net.DialTimeout("tcp", address, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, s)
		}
	}
	for range 200 {
		if _, err := c.Put(Deadline(t, time.Minute), "/k", make([]byte, 64<<10), client.PutOptions{}); err != nil {
			t.Fatalf("beside strangers: %v", err)
		}
	}
	for _, s := range open {
		s.Close()
	}
	fresh := n.Client()
	if _, err := fresh.Get(Deadline(t, time.Minute), "/k", client.GetOptions{}); err != nil {
		t.Fatalf("when they are gone: %v", err)
	}
	if !n.Running() {
		t.Fatal("the node has ended")
	}
}
