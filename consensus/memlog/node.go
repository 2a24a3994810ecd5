package memlog

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/concord-kv/concord/consensus"
)

type role int

const (
	follower role = iota
	preCandidate
	candidate
	leader
)

// node is the Raft part of a replica. It handles one input after the other; when
// an input changed what must be on disk, it handles nothing more until the sync
// has ended, and what it has to say, except new entries for others, waits too.
type node struct {
	c  *Cluster
	id uint64

	// Survives a crash.
	disk state

	// Faults.
	stalled, paused, held, full bool
	answers                     []AnswerKind
	failure                     error // why the last boot ended by itself

	// Of one boot.
	up               bool
	removed          bool
	replica          *Replica
	applier          consensus.Applier
	listener         consensus.Listener
	mem              state
	dirty            bool   // mem has what disk must have
	stable           uint64 // up to here the log on disk is the one in memory
	syncing          bool
	outbox           []*message
	members          members // as of applied
	applied          uint64
	appliedByApplier uint64

	role            role
	leaderID        uint64
	told            notice // last notice to the listener
	notices         []notice
	electionElapsed int
	electionTimeout int
	heartbeatTicks  int
	owedTicks       int
	votes           map[uint64]bool
	peers           map[uint64]*progress
	reads           []*leaderRead
	pendingChange   bool
	transferee      uint64
	saving          *savingSnapshot
}

type notice struct{ leaderID, term uint64 }

// progress is what a leader knows about a member.
type progress struct {
	match, next uint64
	active      bool // heard from since the last quorum check
}

// boot starts the node from its disk.
func (n *node) boot(r *Replica, applier consensus.Applier, listener consensus.Listener) {
	*n = node{
		c: n.c, id: n.id, disk: n.disk, stalled: n.stalled, paused: n.paused, held: n.held, full: n.full, answers: n.answers,
		up: true, replica: r, applier: applier, listener: listener, mem: n.disk, members: n.disk.members,
	}
	n.mem.log = slices.Clip(n.mem.log)
	n.stable = n.mem.last()
	r.init()
	if s := n.mem.snap; s != nil {
		n.restore(s)
	}
	n.resetTimer()
	n.becomeFollower(n.mem.term, 0)
}

// down forgets everything that is not on disk.
func (n *node) down() {
	n.up = false
	n.replica.closed = true
	n.answers = nil
}

// handles says whether the node takes inputs now.
func (n *node) handles() bool { return n.up && !n.removed && !n.paused && !n.syncing }

// enabled lists what this node can do now, apart from receiving.
func (n *node) enabled() []event {
	if !n.up || n.paused {
		return nil
	}
	var events []event
	if n.syncing && !n.stalled {
		if n.full {
			return append(events, n.fullDisk)
		}
		events = append(events, n.synced)
	}
	if n.handles() && n.replica.waiting() {
		events = append(events, func() { n.takeRequests(); n.flush() })
	}
	if !n.held && !n.removed && n.applicable() > n.applied {
		events = append(events, func() { n.apply(); n.flush() })
	}
	if n.saving != nil {
		events = append(events, n.endSaving)
	}
	if len(n.notices) > 0 {
		events = append(events, n.tellListener)
	}
	if len(n.replica.failures) > 0 {
		events = append(events, n.replica.fail)
	}
	return events
}

// flush starts a sync if one is needed, and sends what may go. New entries for
// others go at once, beside the leader's own sync.
func (n *node) flush() {
	if n.dirty {
		n.dirty, n.syncing = false, true
	}
	kept := n.outbox[:0:0]
	for _, m := range n.outbox {
		if n.syncing && m.kind != msgAppend {
			kept = append(kept, m)
		} else {
			n.c.send(m)
		}
	}
	n.outbox = kept
}

// synced ends a sync: everything in memory is on disk.
func (n *node) synced() {
	n.syncing = false
	n.disk, n.stable = n.mem, n.mem.last()
	if p := n.peers[n.id]; n.role == leader && p != nil {
		p.match = n.mem.last()
		n.maybeCommit()
	}
	n.flush()
	for ; n.owedTicks > 0 && n.handles(); n.owedTicks-- {
		n.tick()
		n.flush()
	}
}

func (n *node) send(m *message) {
	m.from = n.id
	n.outbox = append(n.outbox, m)
}

// applicable is the highest index that may be applied: committed, and on disk here.
func (n *node) applicable() uint64 {
	switch s := n.disk.snap; {
	case s != nil && s.index > n.applied:
		return s.index
	case n.mem.base > n.applied:
		return n.applied // an installed snapshot waits for its sync
	}
	return min(n.mem.commit, n.stable)
}

// apply applies a batch of random size, or restores an installed snapshot.
func (n *node) apply() {
	if s := n.disk.snap; s != nil && s.index > n.applied {
		n.restore(s)
		n.replica.appliedTo(n.applied)
		return
	}
	limit := n.applicable()
	limit = min(limit, n.applied+1+uint64(n.c.rng.IntN(n.c.cfg.ApplyBatchMax)))
	var entries []consensus.Entry
	var origins []origin
	for i := n.applied + 1; i <= limit; i++ {
		rec := n.mem.at(i)
		switch {
		case rec.change != nil:
			if len(entries) > 0 { // dragonboat ends a batch at a change, too
				limit = i - 1
				break
			}
			n.applied = i
			n.applyChange(rec, i)
			n.replica.appliedTo(i)
			return
		case rec.payload != nil:
			entries = append(entries, consensus.Entry{Index: i, Payload: bytes.Clone(rec.payload)})
			origins = append(origins, rec.origin)
		}
	}
	if len(entries) > 0 {
		n.applier.Apply(entries)
		n.appliedByApplier = entries[len(entries)-1].Index
	}
	n.applied = limit
	for i, o := range origins {
		// The payload was the log's: whoever kept it now holds rubbish.
		for j := range entries[i].Payload {
			entries[i].Payload[j] = 0xDD
		}
		n.replica.complete(o, entries[i].Results)
	}
	n.replica.appliedTo(limit)
}

func (n *node) restore(s *snapshot) {
	if err := n.applier.Restore(s.applied, bytes.NewReader(s.data)); err != nil {
		panic(fmt.Sprintf("memlog: replica %d cannot restore its snapshot at %d: %v", n.id, s.index, err))
	}
	n.applied, n.appliedByApplier, n.members = s.index, s.applied, s.members
	n.syncPeers()
}

func (n *node) tellListener() {
	next := n.notices[0]
	n.notices = n.notices[1:]
	if n.listener != nil {
		n.listener.LeaderChanged(next.leaderID, next.term)
	}
}
