package port

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"testing"
)

// Two processes and two callers of one never get the same port, and each can be
// listened on.
func TestAddress(t *testing.T) {
	if os.Getenv("CONCORD_PORT_CHILD") != "" {
		for range 50 {
			a, err := Address()
			if err != nil {
				t.Fatal(err)
			}
			os.Stdout.WriteString(a + "\n")
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent has asked for its own
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestAddress$")
	child.Env = append(os.Environ(), "CONCORD_PORT_CHILD=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	lines := bufio.NewScanner(out)
	for len(seen) < 50 && lines.Scan() {
		seen[lines.Text()] = true
	}
	mu.Lock()
	next = start(t, seen) // among the child's
	mu.Unlock()
	for range 50 {
		a, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		if seen[a] {
			t.Fatalf("%s was given twice", a)
		}
		seen[a] = true
		l, err := net.Listen("tcp4", a)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
	_ = in.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 100 {
		t.Fatalf("%d addresses of 100", len(seen))
	}
}

// start is where one of the addresses lies among the ports.
func start(t *testing.T, addresses map[string]bool) int {
	for a := range addresses {
		tcp, err := net.ResolveTCPAddr("tcp4", a)
		if err != nil {
			t.Fatal(err)
		}
		return tcp.Port - first
	}
	t.Fatal("the child has no address")
	return 0
}
