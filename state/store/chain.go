package store

import "github.com/tidwall/btree"

// reader is everything that reads at a revision need: the frozen parts of a View.
type reader struct {
	log
	tree      tree
	kept      *btree.BTreeG[replaced]
	protected []Protected
}

// version is one version of a key and, while its event is in the log, its place.
type version struct {
	rec   Rec
	seq   uint64
	inLog bool
}

// head returns the newest version of a key from its slot in the tree.
func (v *reader) head(rec Rec, tag uint32) version {
	seq, ok := v.place(rec, tag)
	return version{rec, seq, ok}
}

// before returns the version that c replaced; its rec is "" when there was none or
// it is no longer kept.
func (v *reader) before(c version) version {
	if !c.inLog {
		return version{rec: v.keptBefore(c.rec.Key(), c.rec.Mod(), c.rec.OpIndex())}
	}
	prev, back := v.at(c.seq).prev, uint64(v.linkAt(c.seq).back)
	if back != 0 && back <= c.seq-v.base {
		return version{prev, c.seq - back, true}
	}
	return version{rec: prev}
}

// versionAt returns the version, tombstones too, that was the newest at rev; c is
// the head of the chain. rev must be readable for the key.
func (v *reader) versionAt(c version, rev uint64) version {
	if c.rec.Mod() <= rev {
		return c
	}
	if c.inLog {
		if c = v.searchLog(c.seq, v.first(rev+1)); c.inLog || c.rec == "" || c.rec.Mod() <= rev {
			return c
		}
	}
	return version{rec: v.keptBefore(c.rec.Key(), rev+1, 0)}
}

// searchLog returns the newest version of the chain below seq whose entry is before limit,
// which seq is not; when the log has none, what the oldest entry there replaced. Each step
// reads one link, the farthest first: most of what it takes is waiting for their memory.
func (v *reader) searchLog(seq, limit uint64) version {
	for {
		k, most := v.linkAt(seq), seq-v.base
		jump, back, back2 := uint64(k.jump), uint64(k.back), uint64(k.back2)
		switch {
		case jump > back && jump <= most && seq-jump >= limit:
			seq -= jump
		case back == 0 || back > most:
			return version{rec: v.at(seq).prev}
		case seq-back < limit:
			return version{v.at(seq).prev, seq - back, true}
		case back2 != 0 && back2 <= most && seq-back2 < limit:
			return version{v.at(seq - back2).rec, seq - back2, true}
		case back2 != 0 && back2 <= most:
			seq -= back2
		default:
			seq -= back
		}
	}
}

// recordAt returns the record that a key had at rev, "" for none.
func (v *reader) recordAt(rec Rec, tag uint32, rev uint64) Rec {
	if rec.Mod() > rev {
		rec = v.versionAt(v.head(rec, tag), rev).rec
	}
	if !rec.live() {
		return ""
	}
	return rec
}

// replaced is a version under a protected prefix whose successor, at revision by, is
// no longer in the log. It is part of the history while by is after the key's floor:
// one that outlived its protection must not come back with a later one.
type replaced struct {
	rec Rec
	by  uint64
}

// keptBefore returns the newest replaced version that is older than {rev, op}.
func (v *reader) keptBefore(key string, rev uint64, op uint32) (found Rec) {
	if v.kept == nil {
		return ""
	}
	floor, ok := keyFloor(v.protected, key)
	if !ok {
		return ""
	}
	v.kept.Descend(keptPivot(key, rev, op), func(r replaced) bool {
		if r.rec.Key() == key && !r.rec.older(rev, op) {
			return true
		}
		if r.rec.Key() == key && r.by > floor {
			found = r.rec
		}
		return false
	})
	return found
}

// keptLess orders versions by key, oldest first.
func keptLess(a, b replaced) bool { return versionLess(a.rec, b.rec) }

func versionLess(a, b Rec) bool {
	if ka, kb := a.Key(), b.Key(); ka != kb {
		return ka < kb
	}
	return a.older(b.Mod(), b.OpIndex())
}

func keptPivot(key string, rev uint64, op uint32) replaced {
	return replaced{rec: Make(Fields{Key: key, Mod: rev, OpIndex: op, Version: 1})}
}
