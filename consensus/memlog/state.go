package memlog

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// record is one entry of the log. It is immutable and shared by all replicas, so
// that two replicas agree about an entry exactly when they hold the same record.
type record struct {
	term    uint64
	payload []byte  // of a proposal
	change  *change // of a membership change; with neither, a leader's empty entry
	origin  origin
}

// origin says who waits for a record.
type origin struct {
	replica, boot, seq uint64
}

type snapshot struct {
	index, term uint64
	members     members
	applied     uint64 // highest index given to Apply
	data        []byte
}

// state is what a replica keeps on disk, and the copy of it in memory that runs
// ahead of the disk until the next sync.
type state struct {
	term, vote uint64
	commit     uint64
	// log[i] has index base+1+i; base and baseTerm name the entry before them.
	base, baseTerm uint64
	log            []*record
	snap           *snapshot
	members        members // at index 0
}

func (s *state) last() uint64 { return s.base + uint64(len(s.log)) }

func (s *state) lastTerm() uint64 { return s.termAt(s.last()) }

func (s *state) at(index uint64) *record { return s.log[index-s.base-1] }

// termAt returns 0 for an entry that is compacted or not there yet.
func (s *state) termAt(index uint64) uint64 {
	switch {
	case index == s.base:
		return s.baseTerm
	case index < s.base || index > s.last():
		return 0
	}
	return s.at(index).term
}

// slice returns up to limit records from index on.
func (s *state) slice(index uint64, limit int) []*record {
	tail := s.log[index-s.base-1:]
	return slices.Clip(tail[:min(len(tail), limit)])
}

func (s *state) append(records ...*record) { s.log = append(s.log, records...) }

// truncate drops the entries from index on. The copy on disk shares the array, so
// what is appended next must go to another one.
func (s *state) truncate(index uint64) { s.log = slices.Clip(s.log[:index-s.base-1]) }

// compact drops the entries up to index.
func (s *state) compact(index uint64) {
	if index <= s.base {
		return
	}
	term := s.termAt(index)
	s.log = slices.Clone(s.log[index-s.base:])
	s.base, s.baseTerm = index, term
}

// torn returns what a disk with s holds after power was lost while mem was being
// written: nothing of it, or its term and vote and some of its new entries, from the
// first on. An installed snapshot is there as a whole or not at all.
func (s *state) torn(mem state, rng *rand.Rand) state {
	if rng.IntN(3) == 0 {
		return *s
	}
	if mem.base != s.base {
		return mem
	}
	same := 0
	for same < min(len(s.log), len(mem.log)) && s.log[same] == mem.log[same] {
		same++
	}
	got := *s
	got.term, got.vote = mem.term, mem.vote
	if fresh := rng.IntN(len(mem.log) - same + 1); fresh > 0 {
		got.log = slices.Clip(mem.log[:same+fresh])
	}
	got.commit = max(s.commit, min(mem.commit, got.last()))
	return got
}

// members is a membership. It is replaced, never changed.
type members struct {
	order     uint64
	voting    map[uint64]string
	nonVoting map[uint64]string
	removed   map[uint64]bool
}

func initialMembers(voting map[uint64]string) members {
	return members{order: 1, voting: maps.Clone(voting), nonVoting: map[uint64]string{}, removed: map[uint64]bool{}}
}

func (m members) quorum() int { return len(m.voting)/2 + 1 }

func (m members) all() []uint64 {
	ids := slices.AppendSeq(slices.Collect(maps.Keys(m.voting)), maps.Keys(m.nonVoting))
	slices.Sort(ids)
	return ids
}

type changeKind int

const (
	addReplica changeKind = iota
	addNonVoting
	removeReplica
)

type change struct {
	kind    changeKind
	id      uint64
	address string
	order   uint64
}

// with returns the membership after ch, which is at index, and whether ch is
// allowed. The rules are dragonboat's with ordered changes.
func (m members) with(ch *change, index uint64) (members, bool) {
	_, votes := m.voting[ch.id]
	_, listens := m.nonVoting[ch.id]
	switch {
	case ch.order != m.order, m.removed[ch.id] && ch.kind != removeReplica:
		return m, false
	case ch.kind == addReplica && votes, ch.kind == addNonVoting && (votes || listens):
		return m, false
	case ch.kind == removeReplica && votes && len(m.voting) == 1:
		return m, false
	}
	next := members{
		order: index, voting: maps.Clone(m.voting), nonVoting: maps.Clone(m.nonVoting), removed: maps.Clone(m.removed),
	}
	switch ch.kind {
	case addReplica:
		address := ch.address
		if listens {
			address = next.nonVoting[ch.id]
			delete(next.nonVoting, ch.id)
		}
		next.voting[ch.id] = address
	case addNonVoting:
		next.nonVoting[ch.id] = ch.address
	case removeReplica:
		delete(next.voting, ch.id)
		delete(next.nonVoting, ch.id)
		next.removed[ch.id] = true
	}
	return next, true
}
