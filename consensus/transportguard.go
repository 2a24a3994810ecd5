package consensus

import (
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftpb"
)

// refusedMessages counts, over all replicas of the process, the batches, chunks and
// greetings that a guard kept from dragonboat.
var refusedMessages atomic.Uint64

// saidMax bounds what a guard remembers to have logged, claimsMax the claims that wait.
const (
	saidMax   = 1000
	claimsMax = 64
)

// guard knows which replica is at which address, and keeps away from dragonboat what
// would make it panic. The address of an id never changes, and dragonboat takes one
// that comes from elsewhere for a broken invariant: a second process that was started
// with the id of a member would otherwise end all the healthy ones.
type guard struct {
	logger *slog.Logger
	open   atomic.Bool   // the replica has started
	ask    chan struct{} // holds one token when claims wait for a look at the membership
	// incarnations are there before the replica starts, and so before it greets or is
	// open; until then, and in some tests, nobody is asked for his.
	incarnations atomic.Pointer[incarnations]

	mu     sync.RWMutex
	at     map[uint64]string
	claims map[uint64]string // of ids that are not in at
	said   map[string]bool
}

func newGuard(cfg DragonboatConfig) *guard {
	g := &guard{
		logger: cfg.Logger, ask: make(chan struct{}, 1),
		at: map[uint64]string{}, claims: map[uint64]string{}, said: map[string]bool{},
	}
	g.learn(cfg.InitialMembers)
	g.learn(map[uint64]string{cfg.ReplicaID: cfg.RaftAddress})
	return g
}

// learn takes members as this replica knows them; none is ever forgotten.
func (g *guard) learn(members map[uint64]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(g.at, members)
}

// look settles the claims that wait: membership tells what this replica knows now, and
// of an id that it does not know the first claim counts. Without that a replica that
// joins could not hear the leader that would tell it who is a member.
func (g *guard) look(membership func() map[uint64]string) {
	g.mu.Lock()
	claims := g.claims
	g.claims = map[uint64]string{}
	g.mu.Unlock()
	g.learn(membership())
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, address := range claims {
		if _, ok := g.at[id]; !ok {
			g.at[id] = address
		}
	}
}

// allows returns whether replica id is at address, and if it is not, why. An id that is
// not known is not allowed yet, for no reason: look decides.
func (g *guard) allows(id uint64, address string) (ok bool, why string) {
	g.mu.RLock()
	known, ok := g.at[id]
	g.mu.RUnlock()
	switch {
	case ok && known == address:
		return true, ""
	case ok:
		return false, fmt.Sprintf("replica %d is at %s, another one at %s calls itself replica %d: stop it", id, known, address, id)
	case id == 0 || !config.IsValidAddress(address):
		return false, fmt.Sprintf("replica %d at %q is not valid", id, address)
	case !g.open.Load():
		return false, ""
	}
	g.mu.Lock()
	if _, ok := g.claims[id]; !ok && len(g.claims) < claimsMax {
		g.claims[id] = address
	}
	g.mu.Unlock()
	select {
	case g.ask <- struct{}{}:
	default:
	}
	return false, ""
}

// isAt tells whether a replica is known to be at an address.
func (g *guard) isAt(id uint64, address string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return address != "" && g.at[id] == address
}

// another returns why the replica that greets is not the one that is known by its id.
func (g *guard) another(x greeting) string {
	known := g.incarnations.Load()
	if known == nil || x.Incarnation == 0 {
		return ""
	}
	why, err := known.check(x.Replica, x.Incarnation)
	if err != nil {
		return fmt.Sprintf("replica %d is not heard: who it is cannot be written down: %v", x.Replica, err)
	}
	return why
}

// knows tells whether that incarnation of a replica is written down.
func (g *guard) knows(x greeting) bool {
	known := g.incarnations.Load()
	return known != nil && known.has(x.Replica, x.Incarnation)
}

// refuse counts, and says why once.
func (g *guard) refuse(why string) {
	refusedMessages.Add(1)
	g.sayOnce("messages of a peer are refused: " + why)
}

func (g *guard) sayOnce(what string) {
	g.mu.Lock()
	first := !g.said[what] && len(g.said) < saidMax
	if first {
		g.said[what] = true
	}
	g.mu.Unlock()
	if first {
		g.logger.Error(what)
	}
}

// batch returns whether b may be given to dragonboat, and why not; without a reason it
// is only dropped. address is what the connection's greeting said.
func (g *guard) batch(b *raftpb.MessageBatch, address string) (bool, string) {
	if b.SourceAddress != address {
		return false, "a batch is from another address than its connection"
	}
	var last uint64
	for i := range b.Requests {
		m := &b.Requests[i]
		if m.To == 0 || m.From == 0 || m.ShardID != shardID || localOnly(m.Type) {
			return false, "a message is of a kind that peers do not send"
		}
		if m.From == last {
			continue
		}
		last = m.From
		if ok, why := g.allows(m.From, address); !ok {
			return false, why
		}
	}
	return len(b.Requests) > 0 && g.open.Load(), ""
}

// localOnly tells messages that a replica sends to itself.
func localOnly(t raftpb.MessageType) bool {
	switch t {
	case raftpb.LocalTick, raftpb.Election, raftpb.LeaderHeartbeat, raftpb.ConfigChangeEvent, raftpb.CheckQuorum,
		raftpb.SnapshotStatus, raftpb.Unreachable, raftpb.BatchedReadIndex, raftpb.InstallSnapshot:
		return true
	}
	return t < 0
}
