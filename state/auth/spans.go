package auth

import (
	"cmp"
	"slices"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// span is lo <= key < hi; hi "" is the end of the key space.
type span struct{ lo, hi string }

// spans are in order and neither overlap nor touch.
type spans []span

// spanOf returns the keys of a selector.
func spanOf(s *messages.Selector) span {
	lo, hi := store.Bounds(s)
	return span{lo, hi}
}

// empty reports that no key is in it.
func (s span) empty() bool { return s.hi != "" && s.lo >= s.hi }

// merge returns the union of the spans.
func merge(all []span) spans {
	all = slices.DeleteFunc(slices.Clone(all), span.empty)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	var out spans
	for _, s := range all {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.hi == "" {
				break
			}
			if s.lo <= last.hi {
				if s.hi == "" || s.hi > last.hi {
					last.hi = s.hi
				}
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// covers reports whether every key of s is in one of the spans.
func (all spans) covers(s span) bool {
	i, found := slices.BinarySearchFunc(all, s.lo, func(a span, lo string) int { return cmp.Compare(a.lo, lo) })
	if !found {
		i--
	}
	return i >= 0 && all[i].contains(s)
}

func (s span) contains(t span) bool {
	if t.lo < s.lo {
		return false
	}
	return s.hi == "" || t.hi != "" && t.hi <= s.hi
}

// has reports whether a key is in one of the spans.
func (all spans) has(key string) bool {
	i, found := slices.BinarySearchFunc(all, key, func(a span, key string) int { return cmp.Compare(a.lo, key) })
	if found {
		return true
	}
	return i > 0 && (all[i-1].hi == "" || key < all[i-1].hi)
}
