package clustertest

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

var failoverRounds = flag.Int("failover.rounds", 2, "how often TestFailover kills the leader; 20 for a figure")

// failoverBound is what no single failover may take, whatever else the machine does;
// the figure to look at is the median that the test logs.
const failoverBound = 15 * time.Second

// TestFailover kills the leader again and again while three clients write and read one
// call after the other, and measures from the kill to the end of the first call that
// began after it. No client sees an error.
func TestFailover(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	rounds := *failoverRounds
	if testing.Short() {
		rounds = 2
	}
	type series struct {
		name  string
		call  func(context.Context, *client.Client, int) error
		times []time.Duration
	}
	put := func(ctx context.Context, s *client.Client, i int) error {
		_, err := s.Put(ctx, "/failover", fmt.Append(nil, i), client.PutOptions{})
		return err
	}
	get := func(ctx context.Context, s *client.Client, _ int) error {
		_, err := s.Get(ctx, "/failover", client.GetOptions{})
		return err
	}
	all := []*series{{name: "put, client on a follower", call: put}, {name: "get, client on a follower", call: get}, {name: "put, client on the leader", call: put}}
	ctx := Deadline(t, 10*time.Minute)
	for round := range rounds {
		leader := c.Leader()
		var followers []string
		for _, m := range c.Followers() {
			followers = append(followers, m.Listen)
		}
		killed := make(chan struct{})
		var (
			at    time.Time
			group sync.WaitGroup
			ready sync.WaitGroup
		)
		for i, x := range all {
			endpoints := followers
			if i == 2 {
				endpoints = append([]string{leader.Listen}, followers...)
			}
			s := c.client(endpoints...)
			for i == 2 { // until this one is on the leader
				st, err := s.Status(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if st.ReplicaId == leader.ID {
					break
				}
				_ = s.Close()
				s = c.client(endpoints...)
			}
			ready.Add(1)
			group.Go(func() {
				for n := 0; ; n++ {
					after := false
					select {
					case <-killed:
						after = true
					default:
					}
					if err := x.call(ctx, s, n); err != nil {
						t.Errorf("round %d: %s: %v", round, x.name, err)
						if n < 20 {
							ready.Done()
						}
						return
					}
					if n == 19 {
						ready.Done()
					}
					if after && n >= 20 {
						x.times = append(x.times, time.Since(at))
						return
					}
				}
			})
		}
		ready.Wait()
		at = time.Now()
		leader.Kill()
		close(killed)
		group.Wait()
		leader.Start()
		c.WaitServing()
		if t.Failed() {
			return
		}
	}
	for _, x := range all {
		slices.Sort(x.times)
		median, worst := x.times[len(x.times)/2], x.times[len(x.times)-1]
		t.Logf("%s: median %v, worst %v, of %d", x.name, median.Round(time.Millisecond), worst.Round(time.Millisecond), len(x.times))
		if worst > failoverBound {
			t.Errorf("%s: %v", x.name, worst)
		}
	}
}
