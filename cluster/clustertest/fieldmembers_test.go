package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// TestB197TransferToAMemberThatDoesNotAnswer: the lead is to go to a member that stands
// still. It stays where it is, and whoever asked is told; writes go on.
func TestB197TransferToAMemberThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	w := StartWorkload(c, 5, 3)
	w.WaitWrites(30)
	target := c.Followers()[0]
	target.Pause()
	_, err := c.client(c.Leader().Listen).Operate(Deadline(t, 1500*time.Millisecond), &messages.AdminRequest{Request: &messages.AdminRequest_MoveLeader{
		MoveLeader: &messages.MoveLeaderRequest{ReplicaId: target.ID},
	}})
	if err == nil {
		t.Error("a member that stands still leads")
	}
	w.WaitWrites(writesMeanwhile)
	target.Continue()
	c.WaitServing()
	w.WaitWrites(writesMeanwhile)
	w.Stop()
	c.CheckDigests()
	w.History.Check(t)
}

// TestB199OneNodesProposalsAreLost: what one node passes on to the others is held back,
// while Raft, and so its reads, go on. A client that began there writes all the same: the
// SDK goes elsewhere.
func TestB199OneNodesProposalsAreLost(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, ClusterOptions{Nodes: 3, Network: true})
	ctx := Deadline(t, 2*time.Minute)
	m := c.Followers()[0]
	others := []string{m.Listen}
	for _, o := range c.Members() {
		if o != m {
			others = append(others, o.Listen)
		}
	}
	s := c.client(others...)
	if _, err := s.Put(ctx, "/before", nil, client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range c.IDs() {
		c.Net.HoldPeers(m.ID, id)
	}
	if _, err := m.Client().Get(ctx, "/before", client.GetOptions{}); err != nil {
		t.Errorf("reads of that node: %v", err)
	}
	for i := range 20 {
		began := time.Now()
		if _, err := s.Put(ctx, fmt.Sprintf("/after/%d", i), nil, client.PutOptions{}); err != nil {
			t.Fatalf("put %d: %v", i, err)
		}
		if took := time.Since(began); took > failoverBound {
			t.Errorf("put %d took %v", i, took)
		}
	}
	c.Net.Heal()
	c.WaitServing()
	c.CheckDigests()
}

// TestB201AnyOrderOfStarts: a cluster forms, once, in whatever order its members start, and
// again from what they have, with its revision.
func TestB201AnyOrderOfStarts(t *testing.T) {
	t.Parallel()
	orders := [][]uint64{{3, 1, 2}, {2, 3, 1}, {1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {3, 2, 1}}
	if *clusterRounds == 0 {
		orders = orders[:2]
	}
	ctx := Deadline(t, 5*time.Minute)
	c := preparedCluster(t, ClusterOptions{Nodes: 3})
	var revision uint64
	for i, order := range orders {
		for _, id := range order {
			c.Member(id).Start()
			c.Member(id).waitListening(ctx)
		}
		c.WaitServing()
		s := c.Client()
		r, err := s.Revision(ctx)
		if err != nil || r.Revision != revision {
			t.Fatalf("started as %v: revision %d, want %d, %v", order, r.Revision, revision, err)
		}
		p, err := s.Put(ctx, "/order", fmt.Append(nil, i), client.PutOptions{})
		if err != nil || p.Revision != revision+1 {
			t.Fatalf("started as %v: %v, %v", order, p, err)
		}
		revision = p.Revision
		c.CheckDigests()
		for _, m := range c.Members() {
			m.Kill()
		}
	}
}

// waitListening waits until something takes connections where clients go.
func (n *Node) waitListening(ctx context.Context) {
	n.t.Helper()
	for {
		conn, err := net.DialTimeout("tcp4", n.Listen, time.Second)
		if err == nil {
			_ = conn.Close()
			return
		}
		if ctx.Err() != nil {
			n.t.Fatalf("nobody listens at %s: %v", n.Listen, err)
		}
		pause(ctx, 5*time.Millisecond)
	}
}

// TestB202CallsWhileItStartsAndStops: clients call everything while a node starts and stops
// again and again. They see answers or errors with a code, the node ends with code 0 each
// time, and says nothing of a panic.
func TestB202CallsWhileItStartsAndStops(t *testing.T) {
	t.Parallel()
	rounds := 4
	if *clusterRounds > 0 {
		rounds = 50
	}
	n := NewNode(t)
	ctx, cancel := context.WithCancel(Deadline(t, 5*time.Minute))
	defer cancel()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				s, err := client.New(client.Config{Endpoints: []string{n.Listen}, OneShot: i%2 == 0})
				if err != nil {
					t.Error(err)
					return
				}
				ctx, end := context.WithTimeout(ctx, 500*time.Millisecond)
				for _, call := range []func() error{
					func() error { _, err := s.Put(ctx, "/a", nil, client.PutOptions{}); return err },
					func() error { _, err := s.Get(ctx, "/a", client.GetOptions{}); return err },
					func() error { _, err := s.Status(ctx); return err },
					func() error { _, err := s.Grant(ctx, time.Minute, client.GrantOptions{}); return err },
					func() error { _, err := s.LeaseInfo(ctx, 1, client.LeaseInfoOptions{}); return err },
				} {
					var e *messages.Error
					if err := call(); err != nil && ctx.Err() == nil && !errors.As(err, &e) {
						t.Errorf("an error without a code: %v", err)
					}
				}
				end()
				_ = s.Close()
			}
		})
	}
	for i := range rounds {
		n.Start()
		if n.waitListening(ctx); i%2 == 0 {
			n.WaitReady(n.Client())
		}
		if err := n.Stop(); err != nil {
			t.Errorf("%v: %s", err, tail(n.Output(), 2_000))
		}
	}
	cancel()
	group.Wait()
	if strings.Contains(n.Output(), "panic") {
		t.Errorf("it said: %s", tail(n.Output(), 4_000))
	}
}

// TestB204NotAppliedMeansNotApplied: calls fail in several ways (no majority, a leader that
// stands still, one that is killed, a deadline that is short), and what each said of its
// outcome is held against what is there in the end.
func TestB204NotAppliedMeansNotApplied(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	ctx := Deadline(t, 4*time.Minute)
	kinds := map[string]int{}
	check := map[string]messages.Outcome{}
	calls := func(fault string, timeout time.Duration, during, after func()) {
		t.Helper()
		s, err := client.New(client.Config{Endpoints: c.Endpoints(), OneShot: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, _ = s.Put(ctx, "/warm", nil, client.PutOptions{}) // connected
		var (
			group sync.WaitGroup
			mu    sync.Mutex
		)
		for i := range 60 {
			key := fmt.Sprintf("/%s/%02d", fault, i)
			group.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				_, err := s.Put(ctx, key, []byte(key), client.PutOptions{})
				outcome := messages.Outcome_OUTCOME_APPLIED
				if err != nil {
					outcome = messages.OutcomeOf(err)
				}
				mu.Lock()
				defer mu.Unlock()
				check[key] = outcome
				kinds[fmt.Sprintf("%s: %s %s", fault, messages.CodeName(messages.CodeOf(err)), messages.OutcomeName(outcome))]++
			})
			if i == 20 {
				during()
			}
		}
		group.Wait()
		after()
		c.WaitServing()
	}
	followers := c.Followers()
	calls("no-majority", 700*time.Millisecond, func() {
		for _, m := range followers {
			m.Kill()
		}
	}, func() {
		for _, m := range c.Members() {
			if !m.Running() {
				m.Start()
			}
		}
	})
	leader := c.Leader()
	calls("leader-stands-still", 700*time.Millisecond, leader.Pause, leader.Continue)
	leader = c.Leader()
	calls("leader-killed", 300*time.Millisecond, leader.Kill, leader.Start)
	calls("short-deadline", 2*time.Millisecond, func() {}, func() {})
	t.Logf("%v", kinds)
	s := c.Client()
	if _, err := s.Put(ctx, "/last", nil, client.PutOptions{}); err != nil { // all that is under way is before it
		t.Fatal(err)
	}
	for key, outcome := range check {
		g, err := s.Get(ctx, key, client.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		switch there := g.Record != nil; {
		case there && outcome == messages.Outcome_OUTCOME_NOT_APPLIED:
			t.Errorf("%s is there, and was said not to be applied", key)
		case !there && outcome == messages.Outcome_OUTCOME_APPLIED:
			t.Errorf("%s was acknowledged and is gone", key)
		}
	}
}
