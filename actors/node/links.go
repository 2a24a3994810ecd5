package node

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/replica"
	"github.com/concord-kv/concord/cluster/peers"
	"github.com/concord-kv/concord/messages"
)

// links are this node's connections to the others, and what was heard on them.
type links struct {
	facts *facts
	mesh  atomic.Pointer[peers.Mesh]

	// removed is closed when another node says that this one was removed.
	removed     chan struct{}
	removedOnce sync.Once

	mu    sync.Mutex
	peers map[uint64]*peer
}

// peer is what is known of another node.
type peer struct {
	hello   *messages.PeerHello
	beat    *messages.PeerBeat
	heardMs int64 // on this node's monotonic clock
}

// aliveMs is how long after its last beat a member counts as alive.
const aliveMs = 2_000

func newLinks(f *facts) *links {
	return &links{facts: f, removed: make(chan struct{}), peers: map[uint64]*peer{}}
}

// peerListener is where to listen for other nodes; nowhere in a simulation.
func (c Config) peerListener() string {
	if c.Seams.Peers != nil {
		return ""
	}
	return c.PeerListenAddress
}

// start links the node to the others. l is its listener, nil in a simulation, client where
// clients connect, etcd the URL for those of etcd.
func (k *links) start(cfg Config, l net.Listener, client, etcd string, system *actor.ActorSystem, to *actor.PID) {
	address := cfg.PeerListenAddress
	if l != nil {
		address = l.Addr().String()
	}
	k.mesh.Store(peers.Start(peers.Config{
		Self: cfg.self(address, client, etcd), Listener: l, Transport: cfg.Seams.Peers, ServerTLS: cfg.PeerServerTLS, ClientTLS: cfg.PeerClientTLS,
		Known: cfg.Members, Contacts: cfg.Contacts, Version: cfg.Version, ApplyVersion: cfg.Seams.ApplyVersion, Logger: cfg.Logger,
		Identity: func() ([]byte, uint64) {
			c := k.facts.cluster.Load()
			return c.id, c.incarnation
		},
		Beat: k.beat,
		Forwarded: func(m *messages.Propose, reply func(*messages.Proposed)) {
			system.Root.Send(to, &replica.FromPeer{Propose: m, Reply: reply})
		},
		Heard:   k.heard,
		Learned: k.facts.learned,
		Refused: func(e *messages.Error) {
			if e.Code() == messages.Code_CODE_PERMISSION_DENIED {
				k.removedOnce.Do(func() { close(k.removed) })
			}
		},
	}))
}

func (k *links) close() {
	if m := k.mesh.Load(); m != nil {
		m.Close()
	}
}

// Forward implements replica.Peers.
func (k *links) Forward(id uint64, m *messages.Propose, results func(uint32, []*messages.Result), failed func(*messages.ErrorDetail)) error {
	mesh := k.mesh.Load()
	if mesh == nil {
		e := messages.NewError(messages.Code_CODE_NO_LEADER, "replica %d leads and this node has no links yet", id)
		e.Detail.RetryAfterMs = 50
		return e
	}
	return mesh.Forward(id, peers.Forward{Commands: m.GetCommands(), TimeoutMs: m.GetTimeoutMs(), Results: results, Failed: failed})
}

// beat is what this node says of itself.
func (k *links) beat() *messages.PeerBeat {
	leader, applied, digest := k.facts.leader.Load(), k.facts.applied.Load(), k.facts.digests.last()
	return &messages.PeerBeat{
		LeaderId: leader.GetLeaderId(), RaftTerm: leader.GetRaftTerm(),
		AppliedIndex: applied.Applied, Revision: applied.Revision, DigestIndex: digest.index, Digest: digest.digest,
	}
}

func (k *links) heard(from *messages.PeerHello, b *messages.PeerBeat) {
	id, now := from.GetFrom().GetReplicaId(), k.facts.clock.MonotonicMs()
	k.mu.Lock()
	k.peers[id] = &peer{hello: from, beat: b, heardMs: now}
	k.mu.Unlock()
	if b.GetLeaderId() == id && b.GetRaftTerm() >= k.facts.leader.Load().GetRaftTerm() {
		k.facts.leaderHeardMs.Store(now)
	}
}

// of returns what is known of a member; heardMsAgo is negative when it was never heard.
func (k *links) of(id uint64) (p peer, heardMsAgo int64) {
	now := k.facts.clock.MonotonicMs()
	k.mu.Lock()
	defer k.mu.Unlock()
	if q := k.peers[id]; q != nil {
		return *q, now - q.heardMs
	}
	return peer{}, -1
}

func (k *links) addresses() map[uint64]*messages.MemberAddress {
	all := map[uint64]*messages.MemberAddress{}
	if m := k.mesh.Load(); m != nil {
		for _, a := range m.Members() {
			all[a.GetReplicaId()] = a
		}
	}
	return all
}

// self is this node as the others reach it.
func (c Config) self(peer, client, etcd string) *messages.MemberAddress {
	for _, m := range c.Members {
		if m.GetReplicaId() == c.ReplicaID {
			self := proto.CloneOf(m)
			self.SinceUnixMs, self.Etcd = c.Clock.WallMs(), etcd
			return self
		}
	}
	return &messages.MemberAddress{
		ReplicaId: c.ReplicaID, Raft: c.RaftAddress, Peer: peer, Client: client, Etcd: etcd, SinceUnixMs: c.Clock.WallMs(),
	}
}
