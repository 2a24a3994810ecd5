package clustertest

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/messages"
)

// fill writes n keys with values of some bytes, many at once.
func fill(ctx context.Context, t *testing.T, s *client.Client, prefix string, n, bytes int) {
	t.Helper()
	var group sync.WaitGroup
	for w := range 64 {
		group.Go(func() {
			for i := w; i < n; i += 64 {
				if _, err := s.Put(ctx, fmt.Sprintf("%s%06d", prefix, i), make([]byte, bytes), client.PutOptions{NoPrev: true}); err != nil {
					t.Errorf("put %d: %v", i, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// TestLaggardGetsASnapshot: a member that was away for longer than the log reaches back
// gets a snapshot, as does one that is added; watches through it go on without a gap.
func TestLaggardGetsASnapshot(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3, Flags: []string{"--snapshot-bytes", "200000"}})
	ctx := Deadline(t, 3*time.Minute)
	s := c.Client()
	fill(ctx, t, s, "/a/", 500, 100)
	m := c.Followers()[0]
	watch := StartWatch(c, "all")
	m.Kill()
	// More entries than are kept behind a snapshot, each of its own.
	fill(ctx, t, s, "/b/", 4_000, 200)
	for i := range 2_600 {
		if _, err := s.Put(ctx, "/c", fmt.Append(nil, i), client.PutOptions{NoPrev: true}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.Start()
	c.WaitServing()
	fresh := c.Add(4, true)
	if _, err := fresh.Client().Revision(ctx); err != nil {
		t.Fatal(err)
	}
	c.CheckDigests()
	for _, x := range []*Member{m, fresh} {
		l, err := x.Client().List(ctx, Prefix("/"), client.ListOptions{CountOnly: true})
		if err != nil || l.Count != 4_501 {
			t.Errorf("node %d has %d keys, %v", x.ID, l.Count, err)
		}
	}
	watch.WaitFor(r.Revision)
}

// TestHandOver: the leader is asked to stop in order. It hands the lead over, tells its
// clients, and ends by itself; nobody sees an error, nor a wait as long as an election
// after a kill.
func TestHandOver(t *testing.T) {
	c := NewCluster(t, ClusterOptions{Nodes: 3})
	s := c.Client()
	ctx := Deadline(t, 3*time.Minute)
	for round := range 3 {
		leader := c.Leader()
		load, stop := context.WithCancel(ctx)
		var (
			group   sync.WaitGroup
			longest time.Duration
		)
		started := make(chan struct{})
		group.Go(func() {
			for n := 0; load.Err() == nil; n++ {
				began := time.Now()
				if _, err := s.Put(ctx, "/hand-over", fmt.Append(nil, n), client.PutOptions{}); err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				longest = max(longest, time.Since(began))
				if n == 20 {
					close(started)
				}
			}
		})
		select {
		case <-started:
		case <-ctx.Done():
			t.Fatal("no writes")
		}
		if err := leader.Stop(); err != nil {
			t.Errorf("round %d: node %d: %v\n%s", round, leader.ID, err, leader.Output())
		}
		stop()
		group.Wait()
		t.Logf("round %d: the longest put while node %d handed over and stopped took %v", round, leader.ID, longest.Round(time.Millisecond))
		if longest > failoverBound {
			t.Errorf("round %d: a put took %v", round, longest)
		}
		leader.Start()
		c.WaitServing()
	}
}

// TestNodesUnderTLS: mutual TLS between nodes, for Raft and for what is passed on.
func TestNodesUnderTLS(t *testing.T) {
	authority, err := certs.NewAuthority("nodes")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(certs.Request{Name: "node", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, p := range map[string]certs.Pair{"ca": authority.Pair(), "node": pair} {
		if err := p.Save(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	c := NewCluster(t, ClusterOptions{Nodes: 3, Flags: []string{
		"--node-ca", filepath.Join(dir, "ca.crt"), "--node-cert", filepath.Join(dir, "node.crt"), "--node-key", filepath.Join(dir, "node.key"),
	}})
	ctx := Deadline(t, time.Minute)
	for _, m := range c.Members() {
		if _, err := m.Client().Put(ctx, fmt.Sprintf("/by/%d", m.ID), nil, client.PutOptions{}); err != nil {
			t.Error(err)
		}
	}
	c.CheckDigests()
	reply := c.Operate(&messages.AdminRequest{Request: &messages.AdminRequest_Members{Members: &messages.MembersRequest{}}})
	for _, m := range reply.GetMembers() {
		if !m.Alive || m.Differs {
			t.Errorf("%v", m)
		}
	}
}
