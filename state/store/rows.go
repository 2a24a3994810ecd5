package store

import "github.com/concord-kv/concord/messages"

// EachRow calls fn for every row of a snapshot of v until fn returns false: floors,
// then events, then current, as messages.SnapshotRow orders them. The rows describe
// the logical state: they do not depend on how far a sweep has come. AppendRow
// encodes them.
func (v *View) EachRow(fn func(RowKind, Rec) bool) {
	more := true
	v.Floors(func(r Rec) bool {
		more = fn(RowFloor, r)
		return more
	})
	if more {
		v.Changes(v.compacted, ^uint32(0), func(e Event) bool {
			more = fn(RowEvent, e.Rec)
			return more
		})
	}
	if more {
		v.OldCurrent(func(r Rec) bool { return fn(RowCurrent, r) })
	}
}

// Rows is EachRow with each row as a message, which is new memory: fn may keep it.
func (v *View) Rows(fn func(*messages.SnapshotRow) bool) {
	v.EachRow(func(kind RowKind, r Rec) bool {
		if kind == RowEvent {
			return fn(&messages.SnapshotRow{Row: &messages.SnapshotRow_Event{Event: Event{Rec: r}.Proto(false, false)}})
		}
		m := &messages.SnapshotRow{OpIndex: r.OpIndex(), Cause: r.Cause()}
		if kind == RowFloor {
			m.Row = &messages.SnapshotRow_Floor{Floor: r.Proto(false)}
		} else {
			m.Row = &messages.SnapshotRow_Current{Current: r.Proto(false)}
		}
		return fn(m)
	})
}

// Floors visits, by key and then oldest first, the replaced records that are still
// part of the state: what was current at the compact revision, and under protected
// prefixes every version that history shows, tombstones too.
func (v *View) Floors(fn func(Rec) bool) {
	var versions []Rec
	v.tree.ascend("", "", func(rec Rec, tag uint32) bool {
		floor, protected := keyFloor(v.protected, rec.Key())
		if !protected {
			if rec.Mod() > v.compacted {
				if r := v.recordAt(rec, tag, v.compacted); r != "" {
					return fn(r)
				}
			}
			return true
		}
		versions = versions[:0]
		for c := v.head(rec, tag); c.rec.Mod() > floor; {
			p := v.before(c)
			if p.rec == "" {
				break
			}
			if p.rec.Mod() <= v.compacted && counts(p.rec, floor) {
				versions = append(versions, p.rec)
			}
			c = p
		}
		for i := len(versions) - 1; i >= 0; i-- {
			if !fn(versions[i]) {
				return false
			}
		}
		return true
	})
}

// OldCurrent visits by key the live records that no event after the compact revision
// wrote, and under protected prefixes the tombstones that have history below them.
func (v *View) OldCurrent(fn func(Rec) bool) {
	v.tree.ascend("", "", func(rec Rec, _ uint32) bool {
		if rec.Mod() > v.compacted {
			return true
		}
		if rec.Tombstone() {
			if floor, ok := keyFloor(v.protected, rec.Key()); !ok || rec.Mod() <= floor {
				return true
			}
		}
		return fn(rec)
	})
}
