package clustertest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// The attackers are a process of their own: this test binary, run again with the name of
// the attack in its environment.
const (
	stormAttack = "CONCORD_STORM_ATTACK"
	stormTarget = "CONCORD_STORM_TARGET"
	stormCount  = "CONCORD_STORM_COUNT"
	stormPhase  = "CONCORD_STORM_PHASE"
)

// storms are the attacks in their order; see attacker for what each does.
var storms = []string{"connections", "hellos", "loris", "frames", "cancels", "unread", "stuck", "refused"}

// TestSecurityStorm has hostile clients beside an honest one, each attack for a while. In
// CI a few hundred connections for a moment; CONCORD_STORM_COUNT=10000 is the long form,
// CONCORD_STORM_PHASE how long each measurement takes, CONCORD_STORM_ATTACK one of them.
//
// The long form reports what is left of the honest client's puts. The attackers stand for
// machines of their own, but here they share the processors. So they run at the lowest
// priority, and the honest client is measured again beside a process, of the same
// priority, that burns as much of the processors as the attackers did and leaves the node
// alone: what is less beside the attackers is what the node spends on them. It is also
// measured alone. Beside that stands what the node spends on them while the honest client
// is silent, and how much they got done: an attack that did nothing shows nothing.
func TestSecurityStorm(t *testing.T) {
	count, phase, rssMax, long := 100, 300*time.Millisecond, 2048, false
	if n, err := strconv.Atoi(os.Getenv(stormCount)); err == nil {
		count, phase, long = n, 2*time.Second, true
	}
	if d, err := time.ParseDuration(os.Getenv(stormPhase)); err == nil {
		phase = d
	}
	n := NewNode(t, "--connections-max", strconv.Itoa(count+1_000))
	n.Start()
	n.WaitReady(n.Client())
	honest, err := client.New(client.Config{Endpoints: []string{n.Listen}, Name: "honest", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer honest.Close()
	putRate(t, honest, phase) // warm
	for _, attack := range storms {
		if only := os.Getenv(stormAttack); only != "" && only != attack {
			continue
		}
		s := startStorm(t, attack, n.Listen, count)
		select {
		case <-s.ready:
		case <-time.After(3 * time.Minute):
			t.Fatalf("%s: the attackers did not get ready", attack)
		}
		cpu, attacks, since := cpuTime(n.Pid()), s.done.Load(), time.Now()
		_, served := honest.Put(Deadline(t, time.Minute), "/honest/served", nil, client.PutOptions{})
		<-time.After(phase - time.Since(since)) // what is measured is this time
		passed := time.Since(since)
		cpu, attacks = cpuTime(n.Pid())-cpu, s.done.Load()-attacks
		burnt, began := cpuTime(s.pid), time.Now()
		during := putRate(t, honest, phase)
		share := 100 * (cpuTime(s.pid) - burnt).Seconds() / time.Since(began).Seconds()
		rss := rssMiB(n.Pid())
		held := held(n.Pid())
		s.stop()
		if !n.Running() {
			t.Fatalf("%s: the node has ended:\n%s", attack, tail(n.Output(), 4_000))
		}
		t.Logf("%-12s %6.0f puts/s, node at %d MiB with %d files; with no puts it spends %.0f %% of a core on %.0f attacks/s",
			attack, during, rss, held, 100*cpu.Seconds()/passed.Seconds(), float64(attacks)/passed.Seconds())
		if attack == "connections" && held < count {
			t.Errorf("the node holds %d files: not %d connections", held, count)
		}
		if long {
			s := startStorm(t, "elsewhere", n.Listen, int(share))
			<-s.ready
			beside := putRate(t, honest, phase)
			s.stop()
			alone := putRate(t, honest, phase)
			t.Logf("%-12s %6.0f beside %.0f %% of a core burnt elsewhere: %.0f %% are left; %.0f alone: %.0f %%", "", beside, share, 100*during/beside, alone, 100*during/alone)
		}
		if served != nil {
			t.Errorf("%s: the honest client is not served: %v", attack, served)
		}
		if rss > rssMax {
			t.Errorf("%s: the node has %d MiB", attack, rss)
		}
	}
}

// putRate is what 16 callers get done.
func putRate(t *testing.T, c *client.Client, d time.Duration) float64 {
	t.Helper()
	var done atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	began := time.Now()
	for w := range 16 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := c.Put(ctx, fmt.Sprintf("/honest/%d/%d", w, i%100), make([]byte, 256), client.PutOptions{}); err == nil {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// held is how many files a process has open.
func held(pid int) int {
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(files)
}

// cpuTime is what a process has used of the processors.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	var ticks int64
	if f := strings.Fields(rest); len(f) > 12 {
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		ticks = user + system
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
}

// storm is a process of attackers.
type storm struct {
	pid   int
	ready chan struct{} // closed once they are at it
	done  atomic.Int64  // what they say that they have done
	stop  func()
}

// startStorm runs the attackers, at the lowest priority where there is nice.
func startStorm(t *testing.T, attack, target string, count int) *storm {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	line := []string{os.Args[0], "-test.run=^TestSecurityAttacker$", "-test.timeout=10m"}
	if nice, err := exec.LookPath("nice"); err == nil {
		line = append([]string{nice, "-n", "19"}, line...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), stormAttack+"="+attack, stormTarget+"="+target, fmt.Sprintf("%s=%d", stormCount, count))
	cmd.ExtraFiles = []*os.File{in}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	s := &storm{pid: cmd.Process.Pid, ready: make(chan struct{})}
	begun := sync.OnceFunc(func() { close(s.ready) })
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer begun() // they have ended, which the measurement will show
		for lines := bufio.NewScanner(out); lines.Scan(); begun() {
			n, _ := strconv.ParseInt(lines.Text(), 10, 64)
			s.done.Store(n)
		}
	}()
	s.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		<-over
		out.Close()
	}
	return s
}
