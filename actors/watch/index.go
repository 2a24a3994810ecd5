package watch

import (
	"slices"

	"github.com/concord-kv/concord/messages"
)

// prefixLengthsMax is how many distinct prefix lengths get a map of their own. An
// event probes one map a length; past this many the rest go to the range tree.
const prefixLengthsMax = 64

// index finds the watchers whose selector holds a key. A watcher sits in exactly
// one set, so a key visits it at most once.
type index struct {
	exact   map[string]*set
	prefix  map[int]map[string]*set
	lengths []int // the keys of prefix, ascending
	ranges  *node
	size    int
}

// set is the watchers of one selector.
type set struct {
	watchers []*watcher
}

// span is a selector: an exact key, a prefix, or a half-open range whose open end
// is the end of the key space.
type span struct {
	kind    spanKind
	lo, hi  string // exact and prefix: only lo
	openEnd bool
}

type spanKind uint8

const (
	spanExact spanKind = iota
	spanPrefix
	spanRange
)

func spanOf(s *messages.Selector) span {
	switch by := s.GetBy().(type) {
	case *messages.Selector_Key:
		return span{kind: spanExact, lo: string(by.Key)}
	case *messages.Selector_Prefix:
		return span{kind: spanPrefix, lo: string(by.Prefix)}
	case *messages.Selector_Range:
		hi := string(by.Range.GetEnd())
		return span{kind: spanRange, lo: string(by.Range.GetStart()), hi: hi, openEnd: hi == ""}
	}
	// Validation lets no other selector through.
	panic("watch: a selector of no kind")
}

// asRange turns a prefix into the range of the keys that start with it.
func (s span) asRange() span {
	hi := []byte(s.lo)
	for len(hi) > 0 && hi[len(hi)-1] == 0xFF {
		hi = hi[:len(hi)-1]
	}
	if len(hi) == 0 {
		return span{kind: spanRange, lo: s.lo, openEnd: true}
	}
	hi[len(hi)-1]++
	return span{kind: spanRange, lo: s.lo, hi: string(hi)}
}

// add enters w; it must not be in any index.
func (x *index) add(w *watcher) {
	at := w.span
	if at.kind == spanPrefix && x.prefix[len(at.lo)] == nil && len(x.lengths) >= prefixLengthsMax {
		at = at.asRange()
	}
	var s *set
	switch at.kind {
	case spanExact:
		if x.exact == nil {
			x.exact = make(map[string]*set)
		}
		if s = x.exact[at.lo]; s == nil {
			s = new(set)
			x.exact[at.lo] = s
		}
	case spanPrefix:
		s = x.addPrefix(at.lo)
	case spanRange:
		x.ranges, s = x.ranges.insert(at)
	}
	w.home, w.homeSpan, w.homeSlot = s, at, len(s.watchers)
	s.watchers = append(s.watchers, w)
	x.size++
}

func (x *index) addPrefix(p string) *set {
	m := x.prefix[len(p)]
	if m == nil {
		if x.prefix == nil {
			x.prefix = make(map[int]map[string]*set)
		}
		m = make(map[string]*set)
		x.prefix[len(p)] = m
		at, _ := slices.BinarySearch(x.lengths, len(p))
		x.lengths = slices.Insert(x.lengths, at, len(p))
	}
	s := m[p]
	if s == nil {
		s = new(set)
		m[p] = s
	}
	return s
}

// remove takes w out; it must be in x.
func (x *index) remove(w *watcher) {
	s, last := w.home, len(w.home.watchers)-1
	s.watchers[last].homeSlot = w.homeSlot
	s.watchers[w.homeSlot] = s.watchers[last]
	s.watchers[last] = nil
	s.watchers = s.watchers[:last]
	w.home = nil
	x.size--
	if last > 0 {
		return
	}
	switch at := w.homeSpan; at.kind {
	case spanExact:
		delete(x.exact, at.lo)
	case spanPrefix:
		m := x.prefix[len(at.lo)]
		if delete(m, at.lo); len(m) == 0 {
			delete(x.prefix, len(at.lo))
			i, _ := slices.BinarySearch(x.lengths, len(at.lo))
			x.lengths = slices.Delete(x.lengths, i, i+1)
		}
	case spanRange:
		x.ranges = x.ranges.remove(at)
	}
}

// match calls fn for every set whose selector holds key. The index must not change
// meanwhile.
func (x *index) match(key string, fn func(*set)) {
	if s := x.exact[key]; s != nil {
		fn(s)
	}
	for _, n := range x.lengths {
		if n > len(key) {
			break
		}
		if s := x.prefix[n][key[:n]]; s != nil {
			fn(s)
		}
	}
	x.ranges.stab(key, fn)
}
