package store

import (
	"cmp"
	"slices"
	"strings"
)

// Protected keeps the history of the keys that start with Prefix: their state can
// be read below the compact revision, down to Floor.
type Protected struct {
	Prefix string
	Floor  uint64
}

// canonical returns list sorted by prefix, each prefix once with its lowest floor.
func canonical(list []Protected) []Protected {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b Protected) int {
		return cmp.Or(strings.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Floor, b.Floor))
	})
	return slices.CompactFunc(out, func(a, b Protected) bool { return a.Prefix == b.Prefix })
}

// keyFloor returns the lowest floor among the prefixes of key.
func keyFloor(list []Protected, key string) (floor uint64, ok bool) {
	for _, p := range list {
		if p.Prefix > key {
			break
		}
		if strings.HasPrefix(key, p.Prefix) && (!ok || p.Floor < floor) {
			floor, ok = p.Floor, true
		}
	}
	return floor, ok
}

// counts reports whether the version prev, replaced by an event after floor, is
// part of the protected history. A tombstone from before the floor is not: it may
// or may not have been swept, and says the same as nothing.
func counts(prev Rec, floor uint64) bool {
	return prev != "" && (!prev.Tombstone() || prev.Mod() > floor)
}

// outermost calls fn for each prefix that no other prefix of the list contains.
func outermost(list []Protected, fn func(prefix string)) {
	last, some := "", false
	for _, p := range list {
		if some && strings.HasPrefix(p.Prefix, last) {
			continue
		}
		last, some = p.Prefix, true
		fn(p.Prefix)
	}
}

// eachProtected calls fn for every version that protection keeps or will keep: each
// replaced version of a protected key whose successor came after the key's floor. by
// is the successor.
func (v *reader) eachProtected(fn func(by version, prev Rec)) {
	outermost(v.protected, func(prefix string) {
		v.tree.ascend(prefix, PrefixEnd(prefix), func(rec Rec, tag uint32) bool {
			floor, _ := keyFloor(v.protected, rec.Key())
			for c := v.head(rec, tag); c.rec.Mod() > floor; {
				p := v.before(c)
				if p.rec == "" {
					break
				}
				if counts(p.rec, floor) {
					fn(c, p.rec)
				}
				c = p
			}
			return true
		})
	})
}
