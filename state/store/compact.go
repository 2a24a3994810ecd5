package store

import (
	"fmt"
	"slices"
	"strings"
)

// Compact moves the compact revision to c, when that is higher, and sets the
// protected prefixes, the latter before the former: a new prefix keeps history from
// the compact revision as it was before the call. It reads at most one segment of the
// log; a change of the prefixes also reads the history under them. A floor below what
// is still there is raised: to the compact revision for a new prefix, to the floor
// that it had for another. It panics when c has not happened.
func (s *Store) Compact(c uint64, protected []Protected) {
	if c > s.r.rev {
		panic(fmt.Sprintf("store: compact at %d, revision %d", c, s.r.rev))
	}
	list := canonical(protected)
	for i := range list {
		low := s.r.compacted
		for _, p := range s.r.protected {
			if p.Prefix == list[i].Prefix {
				low = p.Floor
			}
		}
		list[i].Floor = max(list[i].Floor, low)
	}
	if !slices.Equal(list, s.r.protected) {
		s.protect(list)
	}
	if c <= s.r.compacted {
		return
	}
	limit := s.r.first(c + 1)
	s.floor = s.sumsAt(limit)
	s.limit = limit
	s.r.compacted = c
}

// protect replaces the protected prefixes and recomputes what they keep.
func (s *Store) protect(list []Protected) {
	for _, p := range s.r.protected {
		if !slices.Contains(list, p) && !slices.Contains(s.dirty[min(1, len(s.dirty)):], p.Prefix) {
			s.dirty = append(s.dirty, p.Prefix)
		}
	}
	s.r.protected = list
	first := s.limit >> segmentBits
	delta := make([]sums, s.r.next>>segmentBits-first+1)
	s.floor.kept, s.floor.keptBytes = 0, 0
	s.r.eachProtected(func(by version, prev Rec) {
		to := &s.floor
		if by.rec.Mod() > s.r.compacted {
			to = &delta[by.seq>>segmentBits-first]
		}
		to.kept += prev.hash()
		to.keptBytes += prev.LogicalBytes()
	})
	kept, keptBytes := s.floor.kept, s.floor.keptBytes
	for i := range delta {
		// Marks at or below the limit are never read again.
		if m := first + uint64(i) - s.r.segBase; m < uint64(len(s.marks)) {
			s.marks[m].kept, s.marks[m].keptBytes = kept, keptBytes
		}
		kept += delta[i].kept
		keptBytes += delta[i].keptBytes
	}
	s.sum.kept, s.sum.keptBytes = kept, keptBytes
}

// Sweep frees memory that compaction made unreachable. It looks at up to budget
// events or kept versions and reports whether there is more to do. It changes nothing
// that can be read, and views taken before keep what they had.
func (s *Store) Sweep(budget int) (more bool) {
	start := s.r.base
	for ; budget > 0 && s.r.base < s.limit; budget-- {
		s.sweepEntry(s.r.at(s.r.base), s.r.linkAt(s.r.base).tomb)
		s.r.base++
	}
	if s.r.base != start {
		s.r.baseRev = s.r.rev + 1
		if s.r.base < s.r.next {
			s.r.baseRev = s.r.at(s.r.base).rec.Mod()
		}
		s.shedSegments()
	}
	if s.r.base < s.limit {
		return true
	}
	for budget > 0 && len(s.dirty) > 0 {
		budget -= s.clean(budget)
	}
	return len(s.dirty) > 0
}

func (s *Store) sweepEntry(e *entry, tomb bool) {
	floor, kept := uint64(0), false
	if len(s.r.protected) > 0 {
		if floor, kept = keyFloor(s.r.protected, e.rec.Key()); kept {
			kept = e.rec.Mod() > floor
		}
	}
	if kept {
		if counts(e.prev, floor) {
			s.keep(e.prev, e.rec.Mod())
		}
		return // a protected tombstone heads the chain of what is kept
	}
	if tomb {
		s.bury(e.rec)
	}
}

// bury takes a compacted tombstone out of the tree, if it is still the newest.
func (s *Store) bury(t Rec) {
	if r, _ := s.r.tree.get(t.Key()); r != "" && r.Mod() == t.Mod() && r.OpIndex() == t.OpIndex() {
		s.r.tree.remove(t.Key())
	}
}

// shedSegments cuts off whole segments and blocks below base. Views share the slices,
// so they are cut, or copied, and never cleared; copied only when the cut part is a
// fair share, so that the cost a segment stays constant.
func (s *Store) shedSegments() {
	n := int(s.r.base>>segmentBits - s.r.segBase)
	s.r.segs = s.r.segs[n:]
	s.r.segBase += uint64(n)
	s.marks = s.marks[min(n, len(s.marks)):]

	low := min(s.r.baseRev, s.r.compacted) >> blockBits
	m := int(low - s.r.revBlock)
	s.r.blocks = s.r.blocks[m:]
	s.r.revBlock += uint64(m)

	if s.shed += n + m; s.shed > (len(s.r.segs)+len(s.r.blocks))/16 {
		s.r.segs, s.r.blocks, s.marks = slices.Clone(s.r.segs), slices.Clone(s.r.blocks), slices.Clone(s.marks)
		s.shed = 0
	}
}

// clean looks at kept versions of the first dirty prefix and drops those that no
// protected prefix keeps any more, with the tombstones above them.
func (s *Store) clean(budget int) (used int) {
	prefix := s.dirty[0]
	if s.dirtyAt.rec == "" {
		s.dirtyAt = keptPivot(prefix, 0, 0)
	}
	var drop []replaced
	done := true
	if s.r.kept != nil {
		s.r.kept.Ascend(s.dirtyAt, func(r replaced) bool {
			if !strings.HasPrefix(r.rec.Key(), prefix) {
				return false
			}
			if used == budget {
				s.dirtyAt, done = r, false
				return false
			}
			used++
			if floor, ok := keyFloor(s.r.protected, r.rec.Key()); !ok || r.by <= floor || !counts(r.rec, floor) {
				drop = append(drop, r)
			}
			return true
		})
	}
	for _, r := range drop {
		s.keptView = nil
		s.r.kept.Delete(r)
		s.buryUnprotected(r.rec.Key())
	}
	if done {
		s.dirty, s.dirtyAt = s.dirty[1:], replaced{}
	}
	return max(used, 1)
}

func (s *Store) buryUnprotected(key string) {
	r, _ := s.r.tree.get(key)
	if r == "" || !r.Tombstone() || r.Mod() > s.r.compacted || r.Mod() >= s.r.baseRev {
		return
	}
	if floor, ok := keyFloor(s.r.protected, key); !ok || r.Mod() <= floor {
		s.r.tree.remove(key)
	}
}
