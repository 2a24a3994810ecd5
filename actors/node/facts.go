package node

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/concord-kv/concord/actors/apply"
	"github.com/concord-kv/concord/actors/session"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

// facts is what the node knows about itself, for its sessions and for operators.
// Actors write it, anyone reads it.
type facts struct {
	clock     Clock
	startMs   int64
	replicaID uint64
	version   string
	fixed     map[uint64]string // client endpoints by configuration
	endpoints atomic.Pointer[endpoints]
	digests   digests
	// leaderHeardMs is when a leader was last heard of, on the node's clock.
	leaderHeardMs atomic.Int64

	ready   atomic.Bool
	leader  atomic.Pointer[messages.LeaderChanged]
	cluster atomic.Pointer[clusterFacts]
	auth    atomic.Pointer[auth.Table]
	applied atomic.Pointer[appliedFacts] // as of the last batch
	shownMs atomic.Int64                 // the lease clock as it was shown last

	applying applyTimes

	watches atomic.Int64
	// Of these, and how many revisions the last is behind.
	watchesBehind, watchesStalled, watchLag atomic.Int64
	connections                             atomic.Int64
}

// endpoints are where clients reach the members that are known. They do not change.
type endpoints struct {
	byReplica map[uint64]string
	sorted    []string
}

// clusterFacts are about the cluster, as of a recent apply.
type clusterFacts struct {
	id          []byte
	incarnation uint64
	config      *messages.ClusterConfig
}

// appliedFacts are the state in numbers, when the node's clock was atMs.
type appliedFacts struct {
	apply.Gauges
	atMs int64
}

// clockStaleMs is how far the estimate of the lease clock runs on without hearing
// of it: time without a leader does not count.
const clockStaleMs = 3_000

var _ session.Node = (*facts)(nil)

func newFacts(cfg Config) *facts {
	f := &facts{
		clock: cfg.Clock, startMs: cfg.Clock.MonotonicMs(),
		replicaID: cfg.ReplicaID, version: cfg.Version, fixed: maps.Clone(cfg.Endpoints),
	}
	if f.fixed == nil {
		f.fixed = map[uint64]string{}
	}
	f.leaderHeardMs.Store(f.startMs)
	f.learned(cfg.Members)
	f.leader.Store(&messages.LeaderChanged{})
	f.cluster.Store(&clusterFacts{})
	f.applied.Store(&appliedFacts{})
	return f
}

// serveAt adds this node's own endpoint, unless the configuration names another
// one, which it does when clients see the node under another address. It is called
// before anybody else knows f.
func (f *facts) serveAt(address string) {
	if f.endpoints.Load().byReplica[f.replicaID] == "" {
		f.fixed[f.replicaID] = address
	}
	f.learned(nil)
}

// learned takes the addresses of the members; what the configuration says goes first.
func (f *facts) learned(members []*messages.MemberAddress) {
	e := &endpoints{byReplica: maps.Clone(f.fixed)}
	for _, m := range members {
		if m.GetClient() != "" && e.byReplica[m.GetReplicaId()] == "" {
			e.byReplica[m.GetReplicaId()] = m.GetClient()
		}
	}
	e.sorted = slices.Sorted(maps.Values(e.byReplica))
	f.endpoints.Store(e)
}

// leaderSilentMs is how long ago a leader was heard of.
func (f *facts) leaderSilentMs() int64 {
	if f.leader.Load().GetIsLeader() {
		return 0
	}
	return max(0, f.clock.MonotonicMs()-f.leaderHeardMs.Load())
}

// Facts implements session.Node.
func (f *facts) Facts() session.Facts {
	leader, cluster, at := f.leader.Load(), f.cluster.Load(), f.endpoints.Load()
	return session.Facts{
		Ready:     f.ready.Load(),
		ClusterID: cluster.id, Incarnation: cluster.incarnation, Cluster: cluster.config,
		ReplicaID: f.replicaID, LeaderID: leader.GetLeaderId(), RaftTerm: leader.GetRaftTerm(),
		LeaderEndpoint: at.byReplica[leader.GetLeaderId()], Endpoints: at.sorted,
		LeaderSilentMs: f.leaderSilentMs(),
		ApplyVersion:   f.applied.Load().ApplyVersion,
		Version:        f.version, UptimeMs: f.clock.MonotonicMs() - f.startMs,
		Watches: uint64(max(0, f.watches.Load())), ApplyLongestMs: f.applying.longest.Load(), ApplyRecentMs: f.applying.recently(f.clock.MonotonicMs()),
	}
}

// Auth implements session.Node.
func (f *facts) Auth() *auth.Table { return f.auth.Load() }

// Now implements session.Node. The estimate of the lease clock never goes back: a new
// leader's clock stands where the last entry of the old one left it, and what remains of
// a lease must not be shown to grow for that. It stands still until the clock has come
// as far again.
func (f *facts) Now() state.Now {
	a := f.applied.Load()
	now := state.Now{WallMs: f.clock.WallMs()}
	if a.ClockMs > 0 {
		now.ClockMs = a.ClockMs + min(max(0, f.clock.MonotonicMs()-a.atMs), clockStaleMs)
	}
	for shown := f.shownMs.Load(); ; shown = f.shownMs.Load() {
		if shown >= now.ClockMs {
			now.ClockMs = shown
			return now
		}
		if f.shownMs.CompareAndSwap(shown, now.ClockMs) {
			return now
		}
	}
}
