package clustertest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

var (
	startKeys   = flag.Int("start.keys", 5_000, "keys that TestStart fills the node with; 1000000 for a figure")
	startRounds = flag.Int("start.rounds", 1, "how often TestStart kills and starts it")
	startDir    = flag.String("start.dir", "", "where TestStart keeps the node's data; what is there already is not written again")
	startBytes  = flag.Int64("start.snapshot_bytes", 0, "--snapshot-bytes of TestStart's node; -1: its log alone has everything")
)

// TestStart measures from exec to the first put that is answered: of a node that is new,
// and of one that has many keys and was killed. It logs the times and the memory after
// it; what it asserts is that everything is there.
func TestStart(t *testing.T) {
	ctx := Deadline(t, 30*time.Minute)
	n := NewNode(t, "--log-level", "info", "--bootstrap", "quota_bytes=34359738368", "--snapshot-bytes", fmt.Sprint(*startBytes))
	if *startDir != "" {
		n.Dir = *startDir
	}
	first := n.startToPut(ctx, t)
	t.Logf("an empty node: first put %v after exec, RSS %d MiB", first.Round(time.Millisecond), n.memory("VmRSS")>>20)
	c := n.Client()
	there, err := c.List(ctx, Prefix("/start/"), client.ListOptions{CountOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	value := func() []byte {
		b := make([]byte, 256)
		for i := range b {
			b[i] = "0123456789abcdef"[r.IntN(16)]
		}
		return b
	}
	const atOnce = 500
	began := time.Now()
	for i := int(there.Count); i < *startKeys; i += atOnce {
		puts := make([]*messages.Put, 0, atOnce)
		for k := i; k < min(i+atOnce, *startKeys); k++ {
			puts = append(puts, client.PutOf(fmt.Sprintf("/start/%09d", k), value(), client.PutOptions{NoPrev: true}))
		}
		if _, err := c.PutMany(ctx, puts...); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d keys in %v, RSS %d MiB", *startKeys, time.Since(began).Round(time.Millisecond), n.memory("VmRSS")>>20)
	var times []time.Duration
	for range *startRounds {
		n.Kill()
		took := n.startToPut(ctx, t)
		times = append(times, took)
		t.Logf("killed and started: first put %v after exec, RSS then %d MiB, at most %d MiB", took.Round(time.Millisecond), n.memory("VmRSS")>>20, n.memory("VmHWM")>>20)
		l, err := c.List(ctx, Prefix("/start/"), client.ListOptions{CountOnly: true})
		if err != nil || l.Count != uint64(*startKeys) {
			t.Fatalf("%d keys of %d, %v", l.Count, *startKeys, err)
		}
		if *startRounds > 1 {
			pause(ctx, 3*time.Second) // what the collector makes of it
			t.Logf("3 s later: RSS %d MiB", n.memory("VmRSS")>>20)
		}
	}
	slices.Sort(times)
	t.Logf("start to the first put with %d keys: median %v, worst %v of %d", *startKeys,
		times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond), len(times))
	if *startRounds > 1 {
		t.Logf("what the node said:\n%s", tail(n.Output(), 6_000))
	}
}

// startToPut starts the process and returns how long it took until a put was answered.
func (n *Node) startToPut(ctx context.Context, t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	n.Start()
	s, err := client.New(client.Config{Endpoints: []string{n.Listen}, Name: "start", Timeout: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Put(ctx, "/first", []byte("1"), client.PutOptions{NoPrev: true}); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// memory reads a size from the process's status, in bytes.
func (n *Node) memory(field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Pid()))
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}
