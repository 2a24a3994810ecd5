package clustertest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// Cluster is several nodes, each a process of its own on loopback.
type Cluster struct {
	t testing.TB
	// Net is between the nodes; nil unless the cluster was made with a network.
	Net *Network

	namespaces *Namespaces        // nil: all are on loopback
	tls        func() *tls.Config // of clients; nil: plain text

	mu      sync.Mutex
	members map[uint64]*Member
	last    uint64   // the highest id that there was
	first   []string // --member flags of the first members
	bin     string
}

// Member is one node of a cluster.
type Member struct {
	*Node
	ID uint64
	// Address is how the others and clients reach it.
	Address *messages.MemberAddress
	watcher *client.Client // asks this node and no other
	tls     func() *tls.Config
}

// ClusterOptions of NewCluster.
type ClusterOptions struct {
	Nodes int
	// Network puts a Network between the nodes.
	Network bool
	// Namespaces gives each member a network of its own; not together with Network.
	Namespaces *Namespaces
	// Flags are further flags of `concord serve` for each.
	Flags []string
	// TLS is what clients of the cluster dial with; nil for plain text.
	TLS func() *tls.Config
}

// NewCluster starts a cluster and waits until it serves. Its processes are killed when
// the test ends.
func NewCluster(t testing.TB, o ClusterOptions) *Cluster {
	t.Helper()
	c := preparedCluster(t, o)
	for _, m := range c.Members() {
		m.Start()
	}
	c.WaitServing()
	return c
}

// preparedCluster makes the first members of a cluster; none is started.
func preparedCluster(t testing.TB, o ClusterOptions) *Cluster {
	t.Helper()
	c := &Cluster{t: t, members: map[uint64]*Member{}, bin: Binary(t), namespaces: o.Namespaces, tls: o.TLS}
	if o.Network {
		c.Net = newNetwork(t, c.pids, c.idOf)
	}
	for i := range o.Nodes {
		m := c.prepare(uint64(i+1), o.Flags)
		c.first = append(c.first, "--member", memberFlag(m.Address))
	}
	for _, m := range c.Members() {
		m.args = append(m.args, c.first...)
	}
	return c
}

// prepare makes a member with its addresses; it is not started.
func (c *Cluster) prepare(id uint64, flags []string) *Member {
	c.t.Helper()
	raft, peer, clients := FreePort(c.t), FreePort(c.t), FreePort(c.t)
	var within []string
	if c.namespaces != nil {
		for _, address := range []*string{&raft, &peer, &clients} {
			_, p, _ := net.SplitHostPort(*address)
			*address = net.JoinHostPort(c.namespaces.host(id), p)
		}
		within = c.namespaces.exec(id)
	}
	m := &Member{ID: id, tls: c.tls, Address: &messages.MemberAddress{ReplicaId: id, Raft: raft, Peer: peer, Client: clients}}
	args := []string{"--replica-id", fmt.Sprint(id)}
	if c.Net != nil {
		m.Address.Raft, m.Address.Peer = c.Net.listen(id, raft, false), c.Net.listen(id, peer, true)
		args = append(args, "--raft-listen", raft, "--peer-listen", peer)
	}
	m.Node = &Node{t: c.t, bin: c.bin, Dir: c.t.TempDir(), Listen: clients, args: append(args, flags...), within: within}
	c.t.Cleanup(func() {
		m.Kill()
		if strings.Contains(m.Output(), "DATA RACE") {
			c.t.Errorf("node %d has a data race", id)
		}
		if c.t.Failed() {
			c.t.Logf("output of node %d:\n%s", id, tail(m.Output(), 4_000))
		}
	})
	c.mu.Lock()
	c.members[id] = m
	c.last = max(c.last, id)
	c.mu.Unlock()
	return m
}

// NewID returns an id that no member has or had.
func (c *Cluster) NewID() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last + 1
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "..." + s[len(s)-n:]
}

func memberFlag(a *messages.MemberAddress) string {
	return fmt.Sprintf("%d=%s,%s,%s", a.GetReplicaId(), a.GetRaft(), a.GetPeer(), a.GetClient())
}

// Members returns the members that were not removed, by id.
func (c *Cluster) Members() []*Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*Member
	for id := uint64(1); len(all) < len(c.members); id++ {
		if m := c.members[id]; m != nil {
			all = append(all, m)
		}
	}
	return all
}

// IDs returns their ids.
func (c *Cluster) IDs() []uint64 {
	var ids []uint64
	for _, m := range c.Members() {
		ids = append(ids, m.ID)
	}
	return ids
}

// Member returns one of them.
func (c *Cluster) Member(id uint64) *Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[id]
}

func (c *Cluster) pids() []int {
	var pids []int
	for _, m := range c.Members() {
		if pid := m.Pid(); pid != 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (c *Cluster) idOf(pid int) (uint64, bool) {
	for _, m := range c.Members() {
		if m.Pid() == pid {
			return m.ID, true
		}
	}
	return 0, false
}

// Endpoints returns where clients connect.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, m := range c.Members() {
		all = append(all, m.Listen)
	}
	return all
}

// Client returns a client of all members; it is closed when the test ends.
func (c *Cluster) Client() *client.Client { return c.connect(true, c.Endpoints()...) }

// client returns a client of these members alone.
func (c *Cluster) client(endpoints ...string) *client.Client { return c.connect(false, endpoints...) }

func (c *Cluster) connect(discover bool, endpoints ...string) *client.Client {
	c.t.Helper()
	s, err := client.New(client.Config{Endpoints: endpoints, Discover: discover, Name: c.t.Name(), Timeout: 60 * time.Second, CurrentTLS: c.tls})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = s.Close() })
	return s
}

// Client returns a client of this member alone.
func (m *Member) Client() *client.Client {
	m.t.Helper()
	if m.watcher == nil {
		s, err := client.New(client.Config{Endpoints: []string{m.Listen}, Name: "clustertest", Timeout: 60 * time.Second, OneShot: true, CurrentTLS: m.tls})
		if err != nil {
			m.t.Fatal(err)
		}
		m.watcher = s
		m.t.Cleanup(func() { _ = s.Close() })
	}
	return m.watcher
}

// Pause stops the process in its tracks (SIGSTOP).
func (m *Member) Pause() { m.Signal(syscall.SIGSTOP) }

// Continue lets it go on (SIGCONT).
func (m *Member) Continue() { m.Signal(syscall.SIGCONT) }

// WaitServing waits until every member that runs answers a linearizable read.
func (c *Cluster) WaitServing() {
	c.t.Helper()
	ctx := Deadline(c.t, 2*time.Minute)
	for _, m := range c.Members() {
		if !m.Running() {
			continue
		}
		if _, err := m.Client().Revision(ctx); err != nil {
			c.t.Fatalf("node %d does not serve: %v\n%s", m.ID, err, c.describe())
		}
	}
}

// Leader waits until the members that run agree on a leader among them, and returns it.
func (c *Cluster) Leader() *Member {
	c.t.Helper()
	ctx := Deadline(c.t, 2*time.Minute)
	for ctx.Err() == nil {
		votes, running := map[uint64]int{}, 0
		for _, m := range c.Members() {
			if !m.Running() {
				continue
			}
			running++
			if s, err := m.status(ctx); err == nil {
				votes[s.LeaderId]++
			}
		}
		for id, n := range votes {
			if m := c.Member(id); id != 0 && n > running/2 && m != nil && m.Running() {
				return m
			}
		}
		pause(ctx, 50*time.Millisecond)
	}
	c.t.Fatal("no leader")
	return nil
}

// Lead makes a member the leader.
func (c *Cluster) Lead(m *Member) {
	c.t.Helper()
	for c.Leader() != m {
		c.Operate(&messages.AdminRequest{Request: &messages.AdminRequest_MoveLeader{
			MoveLeader: &messages.MoveLeaderRequest{ReplicaId: m.ID},
		}})
	}
}

// Followers returns the members that run and do not lead.
func (c *Cluster) Followers() []*Member {
	leader := c.Leader()
	var all []*Member
	for _, m := range c.Members() {
		if m != leader && m.Running() {
			all = append(all, m)
		}
	}
	return all
}

func (m *Member) status(ctx context.Context) (*messages.StatusReply, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return m.Client().Status(ctx)
}

// describe says how the members see the cluster, for a failure.
func (c *Cluster) describe() string {
	var b strings.Builder
	for _, m := range c.Members() {
		switch s, err := m.status(context.Background()); {
		case !m.Running():
			fmt.Fprintf(&b, "node %d does not run\n", m.ID)
		case err != nil:
			fmt.Fprintf(&b, "node %d: %v\n", m.ID, err)
		default:
			fmt.Fprintf(&b, "node %d: leader %d, term %d, applied %d, revision %d, clock epoch %d\n",
				m.ID, s.LeaderId, s.RaftTerm, s.AppliedIndex, s.Revision, s.ClockEpoch)
		}
	}
	return b.String()
}

// pause waits, at most until ctx ends. Polling a real process is the only use.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// CheckDigests waits until each pair of running members has been seen at one applied
// index, and fails the test if their digests were not the same there, or ever differed
// at an equal index.
func (c *Cluster) CheckDigests() {
	c.t.Helper()
	ctx := Deadline(c.t, 2*time.Minute)
	type seen struct{ id, digest uint64 }
	at := map[uint64][]seen{} // applied index -> who had which digest
	met := map[[2]uint64]bool{}
	var running []*Member
	for _, m := range c.Members() {
		if m.Running() {
			running = append(running, m)
		}
	}
	want := len(running) * (len(running) - 1)
	for len(met) < want {
		if ctx.Err() != nil {
			c.t.Fatalf("the members did not meet at one index: %v", met)
		}
		for _, m := range running {
			s, err := m.status(ctx)
			if err != nil {
				continue
			}
			for _, o := range at[s.AppliedIndex] {
				if o.digest != s.Digest {
					c.t.Fatalf("at index %d node %d has digest %016x, node %d %016x", s.AppliedIndex, o.id, o.digest, m.ID, s.Digest)
				}
				if o.id != m.ID {
					met[[2]uint64{o.id, m.ID}], met[[2]uint64{m.ID, o.id}] = true, true
				}
			}
			at[s.AppliedIndex] = append(at[s.AppliedIndex], seen{m.ID, s.Digest})
		}
	}
}

// Operate carries out a request of an operator at any member.
func (c *Cluster) Operate(r *messages.AdminRequest) *messages.MembersReply {
	c.t.Helper()
	reply, err := c.Client().Operate(Deadline(c.t, time.Minute), r)
	if err != nil {
		c.t.Fatalf("%v: %v", r, err)
	}
	return reply.GetMembers()
}

// Add adds a member and starts it. It is not waited for.
func (c *Cluster) Add(id uint64, nonVoting bool, flags ...string) *Member {
	c.t.Helper()
	var contacts []string
	for _, m := range c.Members() {
		contacts = append(contacts, m.Address.Peer)
	}
	endpoints := c.Endpoints()
	m := c.prepare(id, flags)
	reply, err := c.client(endpoints...).Operate(Deadline(c.t, time.Minute), &messages.AdminRequest{Request: &messages.AdminRequest_AddMember{
		AddMember: &messages.AddMemberRequest{Address: m.Address, NonVoting: nonVoting},
	}})
	if err != nil {
		c.t.Fatalf("add %d: %v (%v)", id, err, reply)
	}
	m.args = append(m.args, "--member", memberFlag(m.Address), "--join", strings.Join(contacts, ","))
	if nonVoting {
		m.args = append(m.args, "--non-voting")
	}
	m.Start()
	return m
}

func (c *Cluster) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.members, id)
}

// Remove removes a member from the cluster and ends its process.
func (c *Cluster) Remove(id uint64) {
	c.t.Helper()
	m := c.Member(id)
	c.forget(id)
	c.Operate(&messages.AdminRequest{Request: &messages.AdminRequest_RemoveMember{RemoveMember: &messages.RemoveMemberRequest{ReplicaId: id}}})
	m.Kill()
}
