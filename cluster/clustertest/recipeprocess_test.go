package clustertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// worker is a process that uses a recipe, as its parent sees it.
type worker struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.Writer
	lines chan string // closed when it has ended
	name  string
	ended chan struct{}

	mu  sync.Mutex
	two []string // what must never be said
}

func startWorker(t testing.TB, name string, spec processSpec) *worker {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, cmd: cmd, stdin: in, lines: make(chan string, 1024), name: name, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		defer close(w.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.HasPrefix(s.Text(), "two") || strings.HasPrefix(s.Text(), "failed") {
				w.mu.Lock()
				w.two = append(w.two, s.Text())
				w.mu.Unlock()
			}
			w.lines <- s.Text()
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		w.kill()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, line := range w.two {
			t.Errorf("%s: %s", name, line)
		}
	})
	return w
}

func (w *worker) kill() {
	_ = w.cmd.Process.Signal(syscall.SIGCONT)
	_ = w.cmd.Process.Kill()
	for range w.lines { //nolint:revive // it may have more to say than there is room for
	}
	<-w.ended
}

func (w *worker) tell(line string) {
	if _, err := fmt.Fprintln(w.stdin, line); err != nil {
		w.t.Errorf("%s: %v", w.name, err)
	}
}

// hear waits for a line that begins with a word, and returns the rest of it. Others are
// passed over.
func (w *worker) hear(word string) string {
	w.t.Helper()
	deadline := time.After(3 * time.Minute)
	for {
		select {
		case line, ok := <-w.lines:
			if !ok {
				w.t.Fatalf("%s ended before it said %q", w.name, word)
			}
			if first, rest, _ := strings.Cut(line, " "); first == word {
				return rest
			} else if first == "failed" {
				w.t.Fatalf("%s: %s", w.name, line)
			}
		case <-deadline:
			w.t.Fatalf("%s does not say %q", w.name, word)
		}
	}
}

// silent fails the test if the worker has said a word.
func (w *worker) silent(word string) {
	w.t.Helper()
	for {
		select {
		case line := <-w.lines:
			if strings.HasPrefix(line, word) {
				w.t.Fatalf("%s: %s", w.name, line)
			}
		default:
			return
		}
	}
}

// queue waits until so many keys are in a line.
func queue(t testing.TB, c *client.Client, prefix string, keys uint64) {
	t.Helper()
	ctx := Deadline(t, time.Minute)
	for {
		l, err := c.List(ctx, Prefix(prefix), client.ListOptions{CountOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if l.Count == keys {
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
}
