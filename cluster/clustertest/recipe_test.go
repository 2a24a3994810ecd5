package clustertest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// recipeLong runs the long forms: 50 processes and 10,000 handovers, 20 in a flight, and
// how fast a dead holder is replaced is held to its limit.
var recipeLong = flag.Bool("recipe.long", false, "run the long forms of the tests of recipes")

// recipeTTL is the ttl of a holder that will be stopped or killed. In the short form the
// machine may be so busy with other tests that a process is not heard of for seconds.
func recipeTTL() time.Duration {
	if *recipeLong {
		return 2 * time.Second
	}
	return 6 * time.Second
}

// waiterTTL is that of those in line behind it, who have to live.
const waiterTTL = 30 * time.Second

// replacedWithin is how soon after the end of a process the next one must have its
// lock: a ttl and what the cluster takes.
func replacedWithin() time.Duration {
	if *recipeLong {
		return recipeTTL() + 1500*time.Millisecond
	}
	return recipeTTL() + 30*time.Second
}

// TestHolderIsStopped stops a holder's process for longer than its ttl. The next in line
// gets the lock, without a clash of their writes: the first thing the old one sees when
// it goes on is that its lease is lost, and the guard refuses what it writes late.
func TestHolderIsStopped(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	k := c.Client()
	spec := processSpec{Endpoints: c.Endpoints(), Recipe: "hold", Subject: "stopped", TTL: recipeTTL(), Dir: t.TempDir()}
	old := startWorker(t, "old", spec)
	first := old.hear("granted")
	old.tell("write one")
	old.hear("wrote")
	spec.TTL = waiterTTL
	next := startWorker(t, "next", spec)
	queue(t, k, "/concord/mutex/stopped/", 2)

	stopped := time.Now()
	_ = old.cmd.Process.Signal(syscall.SIGSTOP)
	second := next.hear("granted")
	if d := time.Since(stopped); d > replacedWithin() {
		t.Errorf("granted %v after the holder was stopped, with a ttl of %v", d, recipeTTL())
	} else {
		t.Logf("granted %v after the holder was stopped, with a ttl of %v", d, recipeTTL())
	}
	a, _ := strconv.Atoi(first)
	b, _ := strconv.Atoi(second)
	if b <= a {
		t.Errorf("token %s after %s", second, first)
	}
	next.tell("write two")
	next.hear("wrote")
	// What it finds first when it goes on.
	old.tell("err")
	old.tell("write late")
	_ = old.cmd.Process.Signal(syscall.SIGCONT)
	if lost := old.hear("err"); lost != "true" {
		t.Errorf("the lease of the holder that was stopped is lost: %s", lost)
	}
	old.hear("stale")
	if r, err := k.Get(Deadline(t, time.Minute), "/written/stopped", client.GetOptions{}); err != nil || string(r.Record.GetValue()) != "two" {
		t.Errorf("written: %v, %v", r.Record, err)
	}
	next.tell("unlock")
	if ok := next.hear("unlocked"); ok != "true" {
		t.Errorf("unlocked: %s", ok)
	}
}

// TestHolderIsKilled kills a holder's process with three in line behind it: they get the
// lock in the order in which they came, the first one soon after the ttl.
func TestHolderIsKilled(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	k := c.Client()
	spec := processSpec{Endpoints: c.Endpoints(), Recipe: "hold", Subject: "killed", TTL: recipeTTL(), Dir: t.TempDir()}
	holder := startWorker(t, "holder", spec)
	holder.hear("granted")
	spec.TTL = waiterTTL
	var line []*worker
	for i := range 3 {
		line = append(line, startWorker(t, fmt.Sprintf("waiter %d", i+1), spec))
		queue(t, k, "/concord/mutex/killed/", uint64(i+2))
	}
	killed := time.Now()
	holder.kill()
	for i, w := range line {
		w.hear("granted")
		if d := time.Since(killed); i == 0 && d > replacedWithin() {
			t.Errorf("granted %v after the holder was killed, with a ttl of %v", d, recipeTTL())
		} else if i == 0 {
			t.Logf("granted %v after the holder was killed, with a ttl of %v", d, recipeTTL())
		}
		for _, later := range line[i+1:] {
			later.silent("granted")
		}
		w.tell("unlock")
		w.hear("unlocked")
	}
}

// TestHandovers has many processes take turns at one mutex. The machine itself sees that
// there are never two at once; tokens show that the order is that of their coming; and
// a release wakes one waiter, not all of them.
func TestHandovers(t *testing.T) {
	processes, rounds := 5, 40
	if *recipeLong {
		processes, rounds = 50, 200
	}
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	spec := processSpec{Endpoints: c.Endpoints(), Recipe: "handover", Subject: "m", TTL: 15 * time.Second, Rounds: rounds, Dir: t.TempDir()}
	var workers []*worker
	for i := range processes {
		workers = append(workers, startWorker(t, fmt.Sprintf("process %d", i+1), spec))
	}
	for _, w := range workers {
		w.hear("ready")
	}
	start := time.Now()
	lists := 0
	for _, w := range workers {
		w.tell("go")
	}
	for _, w := range workers {
		n, err := strconv.Atoi(w.hear("done"))
		if err != nil {
			t.Fatal(err)
		}
		lists += n
	}
	took := time.Since(start)
	text, err := os.ReadFile(filepath.Join(spec.Dir, "grants"))
	if err != nil {
		t.Fatal(err)
	}
	grants := strings.Fields(string(text))
	if len(grants) != processes*rounds {
		t.Errorf("%d grants, want %d", len(grants), processes*rounds)
	}
	last := 0
	for i, g := range grants {
		token, err := strconv.Atoi(g)
		if err != nil || token <= last {
			t.Fatalf("grant %d has token %s, after %d", i, g, last)
		}
		last = token
	}
	// Each who comes looks once, and once more when it is woken. Where a watch is late
	// and finds its key gone it looks again.
	if most := 2*len(grants) + len(grants)/4; lists > most {
		t.Errorf("%d handovers took %d looks, at most %d: more than one waiter is woken", len(grants), lists, most)
	}
	t.Logf("%d processes, %d handovers in %v: %.0f a second, %d looks", processes, len(grants), took.Round(time.Millisecond), float64(len(grants))/took.Seconds(), lists)
}

// TestElectionThroughKills kills the leader of the cluster and the leader of an election,
// one after the other: never do two lead, epochs rise, and there is a leader again.
func TestElectionThroughKills(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	spec := processSpec{Endpoints: c.Endpoints(), Recipe: "elect", Subject: "e", TTL: 10 * time.Second, Dir: t.TempDir()}
	candidates := map[*worker]bool{}
	start := func(n int) {
		candidates[startWorker(t, fmt.Sprintf("candidate %d", n), spec)] = true
	}
	for i := range 3 {
		start(i + 1)
	}
	epoch := 0
	// leads waits for a new leader among the candidates.
	leads := func() *worker {
		t.Helper()
		deadline := time.After(3 * time.Minute)
		for {
			for w := range candidates {
				select {
				case line := <-w.lines:
					word, rest, _ := strings.Cut(line, " ")
					if word != "leads" {
						continue // it has lost in the trouble, and is out
					}
					if n, err := strconv.Atoi(rest); err != nil || n <= epoch {
						t.Fatalf("epoch %s after %d", rest, epoch)
					} else {
						epoch = n
					}
					return w
				case <-deadline:
					t.Fatal("nobody leads")
				default:
				}
			}
			pause(t.Context(), 5*time.Millisecond)
		}
	}
	rounds := 2
	if *recipeLong {
		rounds = 5
	}
	leader := leads()
	for i := range rounds {
		m := c.Leader()
		m.Kill()
		c.WaitServing()
		m.Start()
		c.WaitServing()
		select {
		case line := <-leader.lines: // its ttl was too short for this machine
			t.Logf("the leader through the election of the cluster: %s", line)
		default:
			leader.kill()
		}
		delete(candidates, leader)
		start(i + 4)
		leader = leads()
	}
	leader.tell("resign")
	if ok := leader.hear("resigned"); ok != "true" {
		t.Errorf("resigned: %s", ok)
	}
	delete(candidates, leader)
	leads()
}

// TestFlightOfManyProcesses: many processes ask for the same; one runs and all have its
// value.
func TestFlightOfManyProcesses(t *testing.T) {
	processes := 6
	if *recipeLong {
		processes = 20
	}
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	spec := processSpec{Endpoints: c.Endpoints(), Recipe: "fly", Subject: "f", TTL: 15 * time.Second, Dir: t.TempDir()}
	var workers []*worker
	for i := range processes {
		workers = append(workers, startWorker(t, fmt.Sprintf("process %d", i+1), spec))
	}
	for _, w := range workers {
		w.hear("ready")
	}
	for _, w := range workers {
		w.tell("go")
	}
	running := 0
	for _, w := range workers {
		for line := range w.lines {
			if line == "runs" {
				running++
			}
			if line == "runs" || line == "joined" {
				break
			}
		}
	}
	if running != 1 {
		t.Fatalf("%d run", running)
	}
	if _, err := c.Client().Put(Deadline(t, time.Minute), "/land", nil, client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(spec.Dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	joined := 0
	for _, w := range workers {
		value, how, _ := strings.Cut(w.hear("value"), " ")
		if value != strings.TrimSpace(string(text)) {
			t.Errorf("%s: value %q; the runs were %q", w.name, value, text)
		}
		if how == "true" {
			joined++
		}
	}
	if joined != processes-1 {
		t.Errorf("%d joined, want %d", joined, processes-1)
	}
}
