package store

// sums run over the events of the log, in order. Each is a plain sum, so that what
// lies between two points of the log is a subtraction, and the order in which a
// snapshot brings rows back does not matter.
type sums struct {
	state  uint64 // hashes of the live records
	events uint64 // hashes of the events
	bytes  uint64 // logical bytes of history

	// Of the versions that protection keeps once their successors are compacted.
	kept, keptBytes uint64
}

func (s *sums) add(e *entry, protected []Protected) {
	h := e.rec.hash()
	s.events += h
	s.bytes += EventBytes
	if e.rec.Tombstone() {
		s.bytes += e.rec.LogicalBytes()
	} else {
		s.state += h
	}
	var old uint64
	live := e.prev.live()
	if live {
		old = e.prev.hash()
		s.state -= old
		s.bytes += e.prev.LogicalBytes()
	}
	if len(protected) == 0 || e.prev == "" {
		return
	}
	floor, ok := keyFloor(protected, e.rec.Key())
	if !ok || e.rec.Mod() <= floor || !counts(e.prev, floor) {
		return
	}
	if !live {
		old = e.prev.hash()
	}
	s.kept += old
	s.keptBytes += e.prev.LogicalBytes()
}

// sumsAt returns the sums before seq, which must not be below s.limit. It reads at
// most one segment.
func (s *Store) sumsAt(seq uint64) sums {
	if seq == s.r.next {
		return s.sum
	}
	start, at := s.limit, s.floor
	if i := seq >> segmentBits; i<<segmentBits > start {
		start, at = i<<segmentBits, s.marks[i-s.r.segBase]
	}
	for ; start < seq; start++ {
		at.add(s.r.at(start), s.r.protected)
	}
	return at
}

// Digest returns 64 bits over the logical state: live records, the state at the
// compact revision, every event since, and what protected prefixes keep. Equal states
// have equal digests however they were reached: batches, sweeps, views, snapshots
// and loading leave no trace in it.
func (s *Store) Digest() uint64 {
	return digest(s.r.rev, s.r.compacted, s.sum.state, s.floor.state, s.sum.events-s.floor.events, s.floor.kept)
}

// FullDigest computes Digest again from every record. It costs as much as reading
// everything several times.
func (s *Store) FullDigest() uint64 { return s.View().FullDigest() }

// FullDigest computes the digest again from every record that v can read.
func (v *View) FullDigest() uint64 {
	var state, floor, events, kept uint64
	v.Ascend("", "", v.rev, func(r Rec) bool { state += r.hash(); return true })
	v.Ascend("", "", v.compacted, func(r Rec) bool { floor += r.hash(); return true })
	v.Changes(v.compacted, ^uint32(0), func(e Event) bool { events += e.Rec.hash(); return true })
	v.eachProtected(func(by version, prev Rec) {
		if by.rec.Mod() <= v.compacted {
			kept += prev.hash()
		}
	})
	return digest(v.rev, v.compacted, state, floor, events, kept)
}

func digest(rev, compacted, state, floor, events, kept uint64) uint64 {
	h := state + mixA*floor + mixC*events + mixD*kept
	return fold(fold(h^mixA, rev^mixB)^mixC, compacted^mixD) ^ h
}
