package clustertest

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// mixed is a cluster of nodes in this process, whose builds may differ.
type mixed struct {
	t       *testing.T
	configs map[uint64]node.Config

	mu    sync.Mutex
	nodes map[uint64]*node.Node
	said  map[uint64]string // why a node failed
}

func newMixed(t *testing.T) *mixed {
	t.Helper()
	c := &mixed{t: t, configs: map[uint64]node.Config{}, nodes: map[uint64]*node.Node{}, said: map[uint64]string{}}
	var members []*messages.MemberAddress
	first := map[uint64]string{}
	for id := uint64(1); id <= 3; id++ {
		m := &messages.MemberAddress{ReplicaId: id, Raft: FreePort(t), Peer: FreePort(t), Client: FreePort(t)}
		members, first[id] = append(members, m), m.Raft
	}
	for _, m := range members {
		id := m.ReplicaId
		c.configs[id] = node.Config{
			Dir: t.TempDir(), ReplicaID: id, RaftAddress: m.Raft, PeerListenAddress: m.Peer, ClientAddress: m.Client,
			InitialMembers: first, Members: members, RaftTiming: consensus.MultiNodeTiming, StartTimeout: -1,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Fail: func(reason any, _ []byte) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if s, ok := reason.(string); ok {
					c.said[id] = s
				} else if e, ok := reason.(error); ok {
					c.said[id] = e.Error()
				}
			},
		}
	}
	t.Cleanup(func() {
		for id := range c.configs {
			c.stop(id)
		}
	})
	return c
}

// start starts a node of a build that knows rules up to version.
func (c *mixed) start(id uint64, version uint32) {
	c.t.Helper()
	cfg := c.configs[id]
	cfg.Seams = &node.Seams{ApplyVersion: version}
	n, err := node.Start(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.nodes[id] = n
	c.mu.Unlock()
}

func (c *mixed) stop(id uint64) {
	c.mu.Lock()
	n := c.nodes[id]
	delete(c.nodes, id)
	c.mu.Unlock()
	if n != nil {
		_ = n.Close() // of a node that has failed, too
	}
}

func (c *mixed) client(id uint64) *client.Client {
	c.t.Helper()
	s, err := client.New(client.Config{Endpoints: []string{c.configs[id].ClientAddress}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = s.Close() })
	return s
}

// until waits for a condition of a node's status.
func (c *mixed) until(ctx context.Context, s *client.Client, what string, ok func(*messages.StatusReply) bool) {
	c.t.Helper()
	var last *messages.StatusReply
	for ctx.Err() == nil {
		if r, err := s.Status(ctx); err == nil {
			if last = r; ok(r) {
				return
			}
		}
		pause(ctx, 50*time.Millisecond)
	}
	c.t.Fatalf("%s: status %v", what, last)
}

// TestRollingUpgrade: a cluster whose builds differ works by the rules that all know.
// When the last member is of the newer build, the newer rules begin, by themselves. A
// member that comes back as the older build stops, says why, and the others serve.
func TestRollingUpgrade(t *testing.T) {
	const older, newer = messages.ApplyVersion - 1, messages.ApplyVersion
	ctx := Deadline(t, 3*time.Minute)
	c := newMixed(t)
	c.start(1, newer)
	c.start(2, newer)
	c.start(3, older)
	s := c.client(1)

	at := func(version uint32) func(*messages.StatusReply) bool {
		return func(r *messages.StatusReply) bool { return r.LeaderId != 0 && r.ApplyVersion == version }
	}
	c.until(ctx, s, "the cluster begins", at(older))
	if _, err := s.Put(ctx, "/before", []byte("1"), client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	// Everybody knows what each member knows, and it stays at the older version.
	knows := func(want map[uint64]uint32) {
		t.Helper()
		var got map[uint64]uint32
		for ctx.Err() == nil {
			r, err := s.Operate(ctx, &messages.AdminRequest{Request: &messages.AdminRequest_Members{Members: &messages.MembersRequest{}}})
			if err == nil {
				got = map[uint64]uint32{}
				same := true
				for _, m := range r.GetMembers().GetMembers() {
					got[m.ReplicaId] = m.ApplyVersionMax
					same = same && want[m.ReplicaId] == m.ApplyVersionMax
				}
				if same && len(got) == len(want) {
					return
				}
			}
			pause(ctx, 50*time.Millisecond)
		}
		t.Fatalf("members know %v, want %v", got, want)
	}
	knows(map[uint64]uint32{1: newer, 2: newer, 3: older})
	_, err := s.Revoke(ctx, 1<<40)
	if e := messages.DetailOf(err); e.GetCode() != messages.Code_CODE_LEASE_NOT_FOUND || e.GetField() != "" {
		t.Fatalf("by the older rules: %v", err)
	}
	c.until(ctx, s, "with one older member", at(older))

	c.stop(3)
	c.start(3, newer)
	knows(map[uint64]uint32{1: newer, 2: newer, 3: newer})
	for id := uint64(1); id <= 3; id++ {
		c.until(ctx, c.client(id), "all are upgraded", func(r *messages.StatusReply) bool {
			return r.ApplyVersion == newer && r.ApplyVersionMax == newer
		})
	}
	_, err = s.Revoke(ctx, 1<<40)
	if e := messages.DetailOf(err); e.GetCode() != messages.Code_CODE_LEASE_NOT_FOUND || e.GetField() != "lease_id" {
		t.Fatalf("by the newer rules: %v", err)
	}

	c.stop(3)
	c.start(3, older)
	c.mu.Lock()
	failed := c.nodes[3].Failed()
	c.mu.Unlock()
	select {
	case <-failed:
	case <-ctx.Done():
		t.Fatal("the older build goes on")
	}
	for said := ""; !strings.Contains(said, "this build knows 1: install a newer one"); {
		c.mu.Lock()
		said = c.said[3]
		c.mu.Unlock()
		if ctx.Err() != nil {
			t.Fatalf("the older build said %q", said)
		}
		pause(ctx, 20*time.Millisecond)
	}
	if _, err := s.Put(ctx, "/after", []byte("1"), client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}
