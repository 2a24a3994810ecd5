package store

import "slices"

// View is a Store frozen between two events. It is immutable, safe for any number of
// goroutines, and keeps its own compact revision and data: what the store writes,
// compacts and sweeps later does not show.
type View struct {
	reader
	keys   int
	events int
	bytes  uint64
	digest uint64
}

// Revision returns the newest revision.
func (v *View) Revision() uint64 { return v.rev }

// Compacted returns the compact revision.
func (v *View) Compacted() uint64 { return v.compacted }

// Keys returns the number of live keys.
func (v *View) Keys() int { return v.keys }

// Events returns the number of events after the compact revision.
func (v *View) Events() int { return v.events }

// LogicalBytes returns what counts against the quota.
func (v *View) LogicalBytes() uint64 { return v.bytes }

// Digest returns the store's Digest.
func (v *View) Digest() uint64 { return v.digest }

// Floor returns the lowest revision at which the keys lo <= key < hi can be read:
// the compact revision, or lower when all of them lie in one protected prefix.
func (v *View) Floor(lo, hi string) uint64 {
	floor := v.compacted
	for _, p := range v.protected {
		if p.Floor < floor && within(lo, hi, p.Prefix) {
			floor = p.Floor
		}
	}
	return floor
}

// Readable reports whether the keys lo <= key < hi can be read at rev: it is neither
// after Revision nor before Floor.
func (v *View) Readable(lo, hi string, rev uint64) bool {
	return rev <= v.rev && rev >= v.Floor(lo, hi)
}

// Get returns the record that key had at rev: the last that rev, or a revision
// before, wrote. The caller has checked that rev is Readable for the key.
func (v *View) Get(key string, rev uint64) (Rec, bool) {
	r, tag := v.tree.get(key)
	if r == "" {
		return "", false
	}
	r = v.recordAt(r, tag, rev)
	return r, r != ""
}

// Ascend visits the records that existed at rev with lo <= key < hi in order until
// fn returns false; hi "" is the end of the key space. The caller has checked that
// rev is Readable for them.
func (v *View) Ascend(lo, hi string, rev uint64, fn func(Rec) bool) {
	if rev >= v.rev {
		v.ascendLive(lo, hi, fn)
		return
	}
	v.tree.ascend(lo, hi, func(r Rec, tag uint32) bool {
		r = v.recordAt(r, tag, rev)
		return r == "" || fn(r)
	})
}

// Descend is Ascend from the highest key down.
func (v *View) Descend(lo, hi string, rev uint64, fn func(Rec) bool) {
	if rev >= v.rev {
		v.descendLive(lo, hi, fn)
		return
	}
	v.tree.descend(lo, hi, func(r Rec, tag uint32) bool {
		r = v.recordAt(r, tag, rev)
		return r == "" || fn(r)
	})
}

func (v *reader) ascendLive(lo, hi string, fn func(Rec) bool) {
	v.tree.ascend(lo, hi, func(r Rec, _ uint32) bool { return r.Tombstone() || fn(r) })
}

func (v *reader) descendLive(lo, hi string, fn func(Rec) bool) {
	v.tree.descend(lo, hi, func(r Rec, _ uint32) bool { return r.Tombstone() || fn(r) })
}

// Changes visits every event after {rev, op} in order until fn returns false; op
// 0xFFFFFFFF stands after every event of rev. It returns false, having visited
// nothing, when events after the position are gone: rev below the compact revision,
// or inside it, where nobody can tell any more which event was the last.
func (v *View) Changes(rev uint64, op uint32, fn func(Event) bool) bool {
	if rev < v.compacted || rev == v.compacted && op != ^uint32(0) && rev > 0 {
		return false
	}
	seq := v.first(rev + 1)
	if rev > v.compacted && rev <= v.rev {
		seq = min(seq, v.first(rev)+uint64(op)+1)
	}
	for ; seq < v.next; seq++ {
		e := v.at(seq)
		if !fn(e.event()) {
			break
		}
	}
	return true
}

func (e *entry) event() Event {
	if e.prev.live() {
		return Event{e.rec, e.prev}
	}
	return Event{Rec: e.rec}
}

// History visits the events of key with from <= revision <= to, oldest or newest
// first, until fn returns false. When from is the compact revision or the floor of
// the key's protected prefix it includes, as the oldest, the record that was current
// then, without Prev. The caller has checked that from is Readable for the key.
func (v *View) History(key string, from, to uint64, newestFirst bool, fn func(Event) bool) {
	r, tag := v.tree.get(key)
	if r == "" || from > to {
		return
	}
	low := v.compacted
	if from < low {
		if f, ok := keyFloor(v.protected, key); ok {
			low = f
		}
	}
	to = min(to, v.rev)
	if newestFirst {
		v.walk(v.head(r, tag), from, to, low, fn)
		return
	}
	// The chain leads from new to old. Turning it round a window of revisions at a
	// time, each found by jumps, keeps the first page of a long history cheap.
	var events []Event
	for window := uint64(historyWindow); from <= to; window *= 4 {
		end := min(to, from+window)
		events = events[:0]
		v.walk(v.head(r, tag), from, end, low, func(e Event) bool {
			events = append(events, e)
			return true
		})
		for _, e := range slices.Backward(events) {
			if !fn(e) {
				return
			}
		}
		if len(events) > historyWindow {
			window /= 4
		}
		from = end + 1
	}
}

const historyWindow = 16 // revisions

// walk visits events newest first. low is where the history of the key starts.
func (v *reader) walk(c version, from, to, low uint64, fn func(Event) bool) {
	if to < c.rec.Mod() {
		if to < low {
			return
		}
		c = v.versionAt(c, to)
	}
	for c.rec != "" && c.rec.Mod() > low {
		if c.rec.Mod() < from {
			return
		}
		p := v.before(c)
		e := Event{Rec: c.rec}
		if p.rec.live() {
			e.Prev = p.rec
		}
		if !fn(e) {
			return
		}
		c = p
	}
	if from == low && c.rec.live() {
		fn(Event{Rec: c.rec})
	}
}
