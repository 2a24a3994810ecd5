package clustertest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/concord-kv/concord/cluster/clustertest/port"
)

var concordPath = flag.String("concord", "", "path of the concord that nodes run; default: it is built")

// buildOnce builds the binary once for all tests of a process.
var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "concord-bin-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "concord")
	args := []string{"build", "-o", bin}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/concord-kv/concord/cmd/concord")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})

// Binary builds cmd/concord and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	if *concordPath != "" {
		return *concordPath
	}
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Node is one node process. Its data directory outlives it, so that it can be
// started again.
type Node struct {
	t      testing.TB
	bin    string
	Dir    string
	Listen string
	args   []string
	within []string // a command that runs what follows it, before bin

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	output bytes.Buffer
}

// NewNode prepares a single node with an empty data directory and a free loopback
// port; extra are further flags of `concord serve`. The process is killed when the
// test ends.
func NewNode(t testing.TB, extra ...string) *Node {
	t.Helper()
	n := &Node{t: t, bin: Binary(t), Dir: t.TempDir(), Listen: FreePort(t), args: extra}
	t.Cleanup(func() {
		n.Kill()
		if t.Failed() {
			t.Logf("output of the node:\n%s", n.Output())
		}
	})
	return n
}

// Start starts the process and returns at once; clients retry until it serves.
func (n *Node) Start() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		n.t.Fatal("the node is running")
	}
	args := append([]string{"serve", "--data-dir", n.Dir, "--listen", n.Listen}, n.args...)
	line := slices.Concat(n.within, []string{n.bin}, args)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = n.Dir
	out := &lockedWriter{n: n}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	exited := make(chan struct{})
	n.cmd, n.exited = cmd, exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
}

// Kill ends the process at once (SIGKILL) and waits until it is gone. It does
// nothing when none runs.
func (n *Node) Kill() { n.end(syscall.SIGKILL, 30*time.Second) }

// Stop asks the process to end (SIGTERM) and waits; it reports an error if the
// process has not ended in time or not by itself.
func (n *Node) Stop() error {
	n.mu.Lock()
	cmd := n.cmd
	n.mu.Unlock()
	n.end(syscall.SIGTERM, 30*time.Second)
	if cmd == nil {
		return errors.New("no process runs")
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// Signal sends a signal, for example SIGSTOP and SIGCONT.
func (n *Node) Signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(s)
	}
}

// Running reports whether the process has not ended.
func (n *Node) Running() bool {
	n.mu.Lock()
	exited := n.exited
	n.mu.Unlock()
	if exited == nil {
		return false
	}
	select {
	case <-exited:
		return false
	default:
		return true
	}
}

// Exited is closed when the process that runs now, or ran last, has ended by itself.
func (n *Node) Exited() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exited
}

// Pid returns the process id, 0 when none runs.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// Output returns what all its processes have printed; of more than a MiB, the end.
func (n *Node) Output() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.output.String()
}

func (n *Node) end(s syscall.Signal, within time.Duration) {
	n.mu.Lock()
	cmd, exited := n.cmd, n.exited
	n.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(s)
	select {
	case <-exited:
	case <-time.After(within):
		_ = cmd.Process.Kill()
		<-exited
	}
	n.mu.Lock()
	n.cmd, n.exited = nil, nil
	n.mu.Unlock()
}

type lockedWriter struct{ n *Node }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	// Bounded: a node that logs without end must not take the test with it. What is old
	// goes first.
	if w.n.output.Len() > 1<<20 {
		w.n.output.Next(1 << 19)
	}
	return w.n.output.Write(p)
}

// FreePort returns a loopback address that nothing listens on and nobody else gets; see
// port.Address.
func FreePort(t testing.TB) string {
	t.Helper()
	a, err := port.Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}
