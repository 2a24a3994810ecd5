package store

// WarmMax is how many keys Warm takes.
const WarmMax = 64

// Warm reads what a Put or a Get of each of these keys is going to read, and does
// nothing with it: a hint that lets the processor wait for the memory of all keys at
// once, where one operation after another waits at each step of its way. It keeps
// none of the keys. The sum makes the reads happen; it has no meaning.
func (s *Store) Warm(keys []string) (sum uint64) {
	keys = keys[:min(len(keys), WarmMax)]
	var at [WarmMax]kid
	for i := range keys {
		at[i] = s.r.tree.root
	}
	// All leaves are at the same depth. Each pass goes down by one node.
	for k := s.r.tree.root; k.inner != nil; k = k.inner.kids[0] {
		for i := range keys {
			sum += at[i].inner.warm()
		}
		for i, key := range keys {
			n := at[i].inner
			at[i] = n.kids[n.route(key)]
		}
	}
	if at[0].leaf == nil {
		return sum
	}
	for i := range keys {
		sum += at[i].leaf.warm()
	}
	return sum + s.warmRecords(keys, &at)
}

func (n *inner) warm() uint64 {
	return uint64(n.n) + n.heads[0] + n.heads[8] + n.heads[16] + n.heads[24]
}

func (l *leaf) warm() uint64 {
	return uint64(l.n) + l.heads[0] + l.heads[8] + l.heads[16] + l.heads[24] + l.heads[leafMax-1]
}

// warmRecords reads the records that stand where the keys belong, whole as their
// hash needs them, and their events. Most of the time they are those of the keys.
func (s *Store) warmRecords(keys []string, at *[WarmMax]kid) (sum uint64) {
	var recs [WarmMax]Rec
	var tags [WarmMax]uint32
	n := 0
	for i, key := range keys {
		l := at[i].leaf
		h, side := l.side(key)
		if side != 0 {
			continue
		}
		if p := lowerBound(l.heads[:l.n], h); p < int(l.n) && l.heads[p] == h {
			recs[n], tags[n] = l.recs[p], l.tags[p]
			n++
		}
	}
	const line, most = 64, 512
	for _, r := range recs[:n] {
		for b := 0; b < min(len(r), most); b += line {
			sum += uint64(r[b])
		}
	}
	for i, r := range recs[:n] {
		if seq, ok := s.r.place(r, tags[i]); ok {
			sum += uint64(s.r.linkAt(seq).jump)
		}
	}
	return sum
}
