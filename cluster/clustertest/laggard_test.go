package clustertest

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

var (
	laggardMiB  = flag.Int("laggard.mib", 0, "MiB of state that TestLargeLaggard's member lacks; 1024 for a figure, 0 skips it")
	laggardRate = flag.Int("laggard.rate", 5_000, "puts a second meanwhile")
	laggardNice = flag.Int("laggard.nice", 0, "how far the member that catches up gives way to the other processes of this machine, which it would not share with them elsewhere: 0 to 19")
)

// TestLargeLaggard: a member that lacks a large state gets it as a snapshot while clients
// go on writing at a fixed rate. It logs what they notice of it, counted from when each
// put was due, and what it costs the leader in memory, beside the same time without it.
func TestLargeLaggard(t *testing.T) {
	if *laggardMiB == 0 {
		t.Skip("the long form of TestLaggardGetsASnapshot: -laggard.mib=1024")
	}
	ctx := Deadline(t, 20*time.Minute)
	c := preparedCluster(t, ClusterOptions{Nodes: 3, Flags: []string{"--bootstrap", "quota_bytes=34359738368", "--bootstrap", "retention_revisions=5000"}})
	admin := map[*Member]string{}
	for _, x := range c.Members() {
		if *profilesDir != "" {
			admin[x] = FreePort(t)
			x.args = append(x.args, "--admin", admin[x], "--pprof")
		}
		x.Start()
	}
	c.WaitServing()
	s := c.Client()
	m := c.Followers()[0]
	m.Kill()
	if *laggardNice > 0 {
		m.within = []string{"nice", "-n", strconv.Itoa(*laggardNice)}
	}
	began := time.Now()
	fillRandom(ctx, t, s, *laggardMiB<<20)
	leader := c.Leader()
	for _, x := range c.Members() {
		if x != m {
			if _, err := x.Client().Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_SaveSnapshot{SaveSnapshot: &messages.SaveSnapshotRequest{}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d MiB written and saved in %v", *laggardMiB, time.Since(began).Round(time.Second))

	load := startPace(ctx, c, *laggardRate)
	settleMemory(ctx, leader)
	load.window()
	var other *Member
	for _, x := range c.Members() {
		if x != m && x != leader {
			other = x
		}
	}
	steps := startTimeline(t, load, []string{"leader", "follower", "laggard"}, []*Node{leader.Node, other.Node, m.Node})
	window := 20 * time.Second
	alone, before := watchMemory(leader, func() { pause(ctx, window) })
	quiet := load.window()
	after, during := watchMemory(leader, func() {
		m.Start()
		began = time.Now()
		if *profilesDir != "" {
			go fetchProfiles(t, admin[leader], "leader", 10)
			pause(ctx, 500*time.Millisecond)
			go fetchProfiles(t, admin[m], "laggard", 10)
		}
		if _, err := m.Client().Revision(ctx); err != nil {
			t.Errorf("it does not catch up: %v", err)
		}
	})
	caught := time.Since(began)
	busy := load.window()
	steps.stop()
	load.stop()
	t.Logf("it serves %v after its start, %d MiB resident", caught.Round(10*time.Millisecond), m.memory("VmRSS")>>20)
	t.Logf("without it:          %v", quiet)
	t.Logf("while it catches up: %v; p99 %.2f times", busy, float64(busy.p99)/float64(quiet.p99))
	t.Logf("the leader's memory: %d to %d MiB before, %d to %d MiB meanwhile: at most %d MiB above", alone>>20, before>>20, after>>20, during>>20, (during-before)>>20)
	if load.failed != nil {
		t.Errorf("a put failed: %v", load.failed)
	}
	c.CheckDigests()
}

// fillRandom writes values of 1 KiB that do not compress.
func fillRandom(ctx context.Context, t *testing.T, s *client.Client, bytes int) {
	const atOnce, size = 250, 1 << 10
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for i := w * atOnce; i < bytes/size; i += 4 * atOnce {
				var puts []*messages.Put
				for k := i; k < min(i+atOnce, bytes/size); k++ {
					value := make([]byte, size)
					rand.Read(value)
					puts = append(puts, client.PutOf(fmt.Sprintf("/large/%09d", k), value, client.PutOptions{NoPrev: true}))
				}
				if _, err := s.PutMany(ctx, puts...); err != nil {
					t.Errorf("fill: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
}

// watchMemory returns the least and the most that a process has resident while f runs.
func watchMemory(m *Member, f func()) (least, most int64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if r := m.memory("VmRSS"); r > 0 {
			most = max(most, r)
			if least == 0 || r < least {
				least = r
			}
		}
		select {
		case <-done:
			return least, most
		case <-ticker.C:
		}
	}
}

// settleMemory waits until a process under load has been as large as it gets: the heap
// grows until the collector's goal, whatever goes on, and what comes after is to be told
// from that. A minute is enough.
func settleMemory(ctx context.Context, m *Member) {
	most, at := int64(0), time.Now()
	for began := at; time.Since(began) < time.Minute && time.Since(at) < 15*time.Second; pause(ctx, 200*time.Millisecond) {
		if r := m.memory("VmRSS"); r > most+most/200 {
			most, at = r, time.Now()
		}
	}
}

// pace is puts at a fixed rate, whatever they take.
type pace struct {
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu     sync.Mutex
	took   []time.Duration
	seen   int // of took, by since
	failed error
}

// paceClients share the rate and few connections.
const (
	paceClients     = 100
	paceConnections = 4
)

func startPace(ctx context.Context, c *Cluster, rate int) *pace {
	ctx, cancel := context.WithCancel(ctx)
	p := &pace{cancel: cancel}
	var connections []*client.Client
	for range paceConnections {
		connections = append(connections, c.Client())
	}
	every := time.Second * paceClients / time.Duration(rate)
	begin := time.Now()
	for i := range paceClients {
		s := connections[i%paceConnections]
		p.group.Go(func() {
			value := make([]byte, 256)
			due := begin.Add(every * time.Duration(i) / paceClients)
			for n := 0; ; n++ {
				pause(ctx, time.Until(due))
				if ctx.Err() != nil {
					return
				}
				_, err := s.Put(context.WithoutCancel(ctx), fmt.Sprintf("/pace/%03d/%d", i, n%10), value, client.PutOptions{NoPrev: true})
				p.mu.Lock()
				p.took = append(p.took, time.Since(due))
				if err != nil {
					p.failed = err
				}
				p.mu.Unlock()
				due = due.Add(every)
			}
		})
	}
	return p
}

func (p *pace) stop() {
	p.cancel()
	p.group.Wait()
}

// paced is what a window saw.
type paced struct {
	n             int
	p50, p99, max time.Duration
}

func (p paced) String() string {
	return fmt.Sprintf("%d puts, p50 %v, p99 %v, at most %v", p.n, p.p50.Round(10*time.Microsecond), p.p99.Round(10*time.Microsecond), p.max.Round(time.Millisecond))
}

// window returns what was seen since the last one.
func (p *pace) window() paced {
	p.mu.Lock()
	took := p.took
	p.took, p.seen = nil, 0
	p.mu.Unlock()
	return pacedOf(took)
}

// since returns what was seen since it was last asked, in this window.
func (p *pace) since() paced {
	p.mu.Lock()
	took := slices.Clone(p.took[p.seen:])
	p.seen = len(p.took)
	p.mu.Unlock()
	return pacedOf(took)
}

func pacedOf(took []time.Duration) paced {
	if len(took) == 0 {
		return paced{}
	}
	slices.Sort(took)
	return paced{len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1]}
}
