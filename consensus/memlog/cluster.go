package memlog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/concord-kv/concord/consensus"
)

// Config describes a Cluster. Zero values stand for the defaults named.
type Config struct {
	// Replicas are the first members, numbered from 1. Default 3.
	Replicas int
	// Tick is what one tick means for timeouts given to ports. Default 20 ms.
	Tick time.Duration
	// ElectionTicks and HeartbeatTicks are Raft's. Defaults 15 and 2.
	ElectionTicks, HeartbeatTicks int
	// ApplyBatchMax bounds the entries in one Apply; each batch has a random size
	// up to it. Default 64.
	ApplyBatchMax int
	// InFlightBytesMax refuses proposals as overloaded. Default 64 MiB.
	InFlightBytesMax int
	// SnapshotKeep entries stay behind a snapshot. Default 10.
	SnapshotKeep int
	// AppendEntriesMax bounds the entries in one message. Default 64.
	AppendEntriesMax int
	// Network is how messages travel at first; see SetNetwork.
	Network Network
}

// Network is how messages between replicas travel. The zero value loses nothing, is
// instant, and keeps the order of each link.
type Network struct {
	// Loss, Duplicate and Reorder are the probabilities that a message is lost, arrives
	// twice, or overtakes others of its link. A forwarded proposal is never doubled:
	// that would be two entries, and dragonboat does not send one twice.
	Loss, Duplicate, Reorder float64
	// DelayTicks is the longest that a message travels.
	DelayTicks int
}

// Cluster is a simulated cluster. See the package comment.
type Cluster struct {
	cfg     Config
	net     Network
	rng     *rand.Rand
	now     int
	nodes   map[uint64]*node
	ids     []uint64 // sorted keys of nodes
	links   map[link][]*message
	order   []link // sorted keys of links
	cut     map[link]bool
	boots   uint64
	check   checker
	inStep  bool
	initial map[uint64]string
}

type link struct{ from, to uint64 }

// New returns a cluster whose replicas are all down and empty. Everything random
// in it comes from rng.
func New(cfg Config, rng *rand.Rand) *Cluster {
	setDefault(&cfg.Replicas, 3)
	setDefault(&cfg.Tick, 20*time.Millisecond)
	setDefault(&cfg.ElectionTicks, 15)
	setDefault(&cfg.HeartbeatTicks, 2)
	setDefault(&cfg.ApplyBatchMax, 64)
	setDefault(&cfg.InFlightBytesMax, 64<<20)
	setDefault(&cfg.SnapshotKeep, 10)
	setDefault(&cfg.AppendEntriesMax, 64)
	c := &Cluster{
		cfg: cfg, net: cfg.Network, rng: rng, nodes: map[uint64]*node{}, links: map[link][]*message{},
		cut: map[link]bool{}, initial: map[uint64]string{}, check: newChecker(),
	}
	for id := uint64(1); id <= uint64(cfg.Replicas); id++ {
		c.initial[id] = fmt.Sprintf("memory:%d", id)
	}
	for id := range uint64(cfg.Replicas) {
		c.addNode(id + 1)
	}
	return c
}

func setDefault[T comparable](v *T, d T) {
	if *v == *new(T) {
		*v = d
	}
}

func (c *Cluster) addNode(id uint64) *node {
	n := &node{c: c, id: id}
	// A joining replica too begins with the first members: it is no voter until it
	// has applied the change that made it one.
	n.disk.members = initialMembers(c.initial)
	c.nodes[id] = n
	c.ids = append(c.ids, id)
	slices.Sort(c.ids)
	return n
}

func (c *Cluster) node(id uint64) *node {
	n := c.nodes[id]
	if n == nil {
		panic(fmt.Sprintf("memlog: there is no replica %d", id))
	}
	return n
}

// Start boots replica id with an empty applier: it restores its last snapshot, if
// it has one, before Start returns, and replays the log in later steps. The
// replica must be down.
func (c *Cluster) Start(id uint64, applier consensus.Applier, listener consensus.Listener) *Replica {
	n := c.node(id)
	if n.up {
		panic(fmt.Sprintf("memlog: replica %d is up", id))
	}
	c.boots++
	r := &Replica{c: c, n: n, boot: c.boots}
	n.boot(r, applier, listener)
	return r
}

// Join boots a replica that a membership change has added. Its id is new.
func (c *Cluster) Join(id uint64, applier consensus.Applier, listener consensus.Listener) *Replica {
	if c.nodes[id] != nil {
		panic(fmt.Sprintf("memlog: replica id %d was used before", id))
	}
	c.addNode(id)
	return c.Start(id, applier, listener)
}

// Crash stops replica id as a loss of power does: what it had not synced is gone,
// and its callbacks never come.
func (c *Cluster) Crash(id uint64) {
	n := c.node(id)
	if n.up {
		n.down()
	}
}

// Now returns the ticks since New.
func (c *Cluster) Now() int { return c.now }

// Replica returns the running replica, nil if it is down.
func (c *Cluster) Replica(id uint64) *Replica {
	if n := c.node(id); n.up {
		return n.replica
	}
	return nil
}

// Leader returns the running leader of the highest term, 0 if there is none. A
// leader that is cut off may not know yet that it was replaced.
func (c *Cluster) Leader() uint64 {
	var best *node
	for _, id := range c.ids {
		if n := c.nodes[id]; n.up && n.role == leader && (best == nil || n.mem.term > best.mem.term) {
			best = n
		}
	}
	if best == nil {
		return 0
	}
	return best.id
}

// Members returns who takes part, sorted, as far as replica id has applied.
func (c *Cluster) Members(id uint64) (voting, nonVoting []uint64) {
	m := c.node(id).members
	return slices.Sorted(maps.Keys(m.voting)), slices.Sorted(maps.Keys(m.nonVoting))
}

// Elect makes replica id stand for election now, as a transfer of leadership does.
// It may lose.
func (c *Cluster) Elect(id uint64) {
	if n := c.node(id); n.handles() && n.role != leader {
		n.campaign(forced)
		n.flush()
	}
}
