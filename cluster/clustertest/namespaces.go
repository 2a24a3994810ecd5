package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Namespaces give each member of a cluster a network of its own, joined by a bridge in a
// network where the test itself runs. A link that is down there is a cable that is
// pulled: nothing is refused and nothing is reset, there is only silence. No address of
// it exists outside the test.
type Namespaces struct {
	t    testing.TB
	name string
}

const namespacesEnv = "CONCORD_TEST_NETNS"

// InNamespaces runs the test that calls it once more, as a child inside a network with
// links for that many members, and reports its outcome as this test's; there it returns
// what the test needs. In the parent, and where namespaces cannot be made (they need
// root and the ip command), it returns nil and the test is over.
func InNamespaces(t testing.TB, members int) *Namespaces {
	t.Helper()
	if name := os.Getenv(namespacesEnv); name != "" {
		n := &Namespaces{t: t, name: name}
		n.ip("link", "set", "lo", "up")
		n.ip("link", "add", "br0", "type", "bridge")
		n.ip("addr", "add", "10.77.0.254/24", "dev", "br0")
		n.ip("link", "set", "br0", "up")
		for id := 1; id <= members; id++ {
			n.ip("link", "set", n.link(uint64(id)), "master", "br0", "up")
		}
		return n
	}
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n := &Namespaces{t: t, name: fmt.Sprintf("concord-%d", os.Getpid())}
	if out, err := exec.Command("ip", "netns", "add", n.name).CombinedOutput(); err != nil {
		t.Skipf("no network namespaces: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.name).Run() })
	for id := uint64(1); id <= uint64(members); id++ {
		ns := n.of(id)
		n.ip("netns", "add", ns)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
		n.ip("link", "add", n.link(id), "netns", n.name, "type", "veth", "peer", "name", "eth0", "netns", ns)
		n.ip("-n", ns, "link", "set", "lo", "up")
		n.ip("-n", ns, "addr", "add", n.host(id)+"/24", "dev", "eth0")
		n.ip("-n", ns, "link", "set", "eth0", "up")
	}
	args := []string{"netns", "exec", n.name, os.Args[0], "-test.run", "^" + t.Name() + "$", "-test.v", "-concord", Binary(t)}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	child := exec.Command("ip", args...)
	child.Env = append(os.Environ(), namespacesEnv+"="+n.name)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("in the namespaces: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	return nil
}

func (n *Namespaces) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (n *Namespaces) of(id uint64) string   { return fmt.Sprintf("%s-%d", n.name, id) }
func (n *Namespaces) link(id uint64) string { return fmt.Sprintf("member%d", id) }
func (n *Namespaces) host(id uint64) string { return fmt.Sprintf("10.77.0.%d", id) }

// exec is what a member's command line begins with.
func (n *Namespaces) exec(id uint64) []string { return []string{"ip", "netns", "exec", n.of(id)} }

// Pull takes a member's cable out.
func (n *Namespaces) Pull(id uint64) { n.ip("link", "set", n.link(id), "down") }

// Plug puts it back.
func (n *Namespaces) Plug(id uint64) { n.ip("link", "set", n.link(id), "up") }

// Shape makes a member's link lose and delay what it carries, as tc's netem says; "" ends
// it. It reports false where the machine cannot.
func (n *Namespaces) Shape(id uint64, netem string) bool {
	args := []string{"qdisc", "replace", "dev", n.link(id), "root", "netem"}
	if netem == "" {
		args = []string{"qdisc", "del", "dev", n.link(id), "root"}
	}
	return exec.Command("tc", append(args, strings.Fields(netem)...)...).Run() == nil
}
