package compat

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/clustertest/port"
	"github.com/concord-kv/concord/messages"
)

func freePort(t testing.TB) string { return need(port.Address())(t) }

// startCluster starts three nodes in this process, each with an etcd endpoint.
func startCluster(t testing.TB) []*node.Node {
	t.Helper()
	nodes, _ := startMembers(t)
	return nodes
}

// startMembers also returns where they are.
func startMembers(t testing.TB) ([]*node.Node, []*messages.MemberAddress) {
	t.Helper()
	const n = 3
	var members []*messages.MemberAddress
	initial := map[uint64]string{}
	for id := uint64(1); id <= n; id++ {
		m := &messages.MemberAddress{ReplicaId: id, Raft: freePort(t), Peer: freePort(t), Client: freePort(t)}
		members = append(members, m)
		initial[id] = m.Raft
	}
	nodes := make([]*node.Node, n)
	for i, m := range members {
		var err error
		nodes[i], err = node.Start(node.Config{
			Dir: t.TempDir(), ReplicaID: m.ReplicaId, RaftAddress: m.Raft, InitialMembers: initial, PeerListenAddress: m.Peer,
			Members: members, ClientAddress: m.Client, StartTimeout: -1,
			Etcd: &node.Etcd{Address: "127.0.0.1:0"},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nodes[i].Close() }) // a test may have closed it
	}
	for _, x := range nodes {
		select {
		case <-x.Ready():
		case <-time.After(2 * time.Minute):
			t.Fatal("the cluster does not come up")
		}
	}
	return nodes, members
}

func endpoints(nodes []*node.Node) (list []string) {
	for _, n := range nodes {
		list = append(list, n.EtcdAddr())
	}
	return list
}

func leader(t testing.TB, nodes []*node.Node) int {
	t.Helper()
	s, err := nodes[0].Status(deadline(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return int(s.LeaderId) - 1
}

// TestWatchOutlivesLeader: a watch at the node that stops goes on at another one, without a
// gap and without a repeat, and so do a session and its lock.
func TestWatchOutlivesLeader(t *testing.T) {
	nodes := startCluster(t)
	ctx := deadline(t, 4*time.Minute)
	first := leader(t, nodes)
	c := client(t, nodes[first].EtcdAddr(), nodes[(first+1)%3].EtcdAddr(), nodes[(first+2)%3].EtcdAddr())
	s := need(concurrency.NewSession(c, concurrency.WithTTL(30)))(t)
	m := concurrency.NewMutex(s, "/lock")
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	w := c.Watch(clientv3.WithRequireLeader(ctx), "k", clientv3.WithPrefix(), clientv3.WithRev(1))
	const puts = 60
	done := make(chan error, 1)
	go func() {
		for i := range puts {
			// A put that fails with an unknown outcome may have been applied: it is one of its
			// own key, so that to repeat it can be told from a repeated event.
			for {
				once, cancel := context.WithTimeout(ctx, 5*time.Second)
				_, err := c.Put(once, fmt.Sprintf("k%03d", i), "v")
				cancel()
				if err == nil {
					break
				}
				if ctx.Err() != nil {
					done <- err
					return
				}
			}
			if i == puts/3 {
				go func() { _ = nodes[first].Close() }()
			}
		}
		done <- nil
	}()
	seen, last := map[string]bool{}, int64(0)
	for len(seen) < puts {
		r, ok := <-w
		if !ok {
			t.Fatal("the watch ended")
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		for _, e := range r.Events {
			if e.Kv.ModRevision <= last {
				t.Fatalf("revision %d after %d", e.Kv.ModRevision, last)
			}
			last = e.Kv.ModRevision
			seen[string(e.Kv.Key)] = true
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := need(c.Get(ctx, m.Key()))(t); len(got.Kvs) != 1 {
		t.Fatal("the lock is lost")
	}
	if err := m.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestMembersAgree: every member answers linearizable reads, knows the others, and has the
// same checksum of the keys at a revision.
func TestMembersAgree(t *testing.T) {
	nodes := startCluster(t)
	ctx := deadline(t, 2*time.Minute)
	c := client(t, endpoints(nodes)...)
	var revision int64
	for i := range 50 {
		revision = need(c.Put(ctx, fmt.Sprint("k", i), "v"))(t).Header.Revision
	}
	list := need(c.MemberList(ctx))(t)
	if len(list.Members) != 3 {
		t.Fatalf("members: %v", list.Members)
	}
	for i := range nodes { // each tells the others where it is within a beat
		eventually(t, "a member's endpoint is not told", func() bool {
			list = need(c.MemberList(ctx))(t)
			return len(list.Members[i].ClientURLs) == 1
		})
	}
	leaders, sums := map[uint64]bool{}, map[uint32]bool{}
	for i, n := range nodes {
		one := client(t, n.EtcdAddr())
		if got := need(one.Get(ctx, "k49"))(t); len(got.Kvs) != 1 || got.Header.MemberId != uint64(i+1) {
			t.Fatalf("member %d: %v", i+1, got)
		}
		leaders[need(one.Status(ctx, n.EtcdAddr()))(t).Leader] = true
		sums[need(one.HashKV(ctx, n.EtcdAddr(), revision))(t).Hash] = true
		if len(list.Members[i].ClientURLs) != 1 || list.Members[i].ClientURLs[0] != "http://"+n.EtcdAddr() {
			t.Fatalf("member %d is said to be at %v", i+1, list.Members[i].ClientURLs)
		}
	}
	if len(leaders) != 1 || len(sums) != 1 {
		t.Fatalf("leaders %v, checksums %v", leaders, sums)
	}
	from := leader(t, nodes)
	to := uint64((from+1)%3 + 1)
	need(client(t, nodes[from].EtcdAddr()).MoveLeader(ctx, to))(t)
	if got := need(c.Status(ctx, nodes[(from+2)%3].EtcdAddr()))(t); got.Leader == 0 {
		t.Fatalf("nobody leads: %v", got)
	}
}
