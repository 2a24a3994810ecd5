package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/concord-kv/concord/messages"
)

func matched(x *index, key string) []uint64 {
	ids := []uint64{}
	x.match(key, func(s *set) {
		for _, w := range s.watchers {
			ids = append(ids, w.id)
		}
	})
	slices.Sort(ids)
	return ids
}

// TestIndexAgainstScan adds and removes selectors of every kind and compares each
// match with asking every selector.
func TestIndexAgainstScan(t *testing.T) {
	short := rapid.StringOfN(rapid.SampledFrom([]rune("abc\x00")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		var x index
		selectors := map[uint64]*messages.Selector{}
		watchers := map[uint64]*watcher{}
		next := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				var s *messages.Selector
				switch rapid.IntRange(0, 3).Draw(t, "kind") {
				case 0:
					s = exact("a" + short.Draw(t, "key"))
				case 1:
					s = prefix(short.Draw(t, "prefix"))
				default:
					lo, hi := short.Draw(t, "lo"), short.Draw(t, "hi")
					if hi != "" && lo > hi {
						lo, hi = hi, lo
					}
					if lo == hi {
						hi = ""
					}
					s = between(lo, hi)
				}
				next++
				w := &watcher{id: next, span: spanOf(s)}
				selectors[next], watchers[next] = s, w
				x.add(w)
			},
			"remove": func(t *rapid.T) {
				if len(watchers) == 0 {
					t.Skip()
				}
				ids := []uint64{}
				for id := range watchers {
					ids = append(ids, id)
				}
				slices.Sort(ids)
				id := rapid.SampledFrom(ids).Draw(t, "id")
				x.remove(watchers[id])
				delete(watchers, id)
				delete(selectors, id)
			},
			"": func(t *rapid.T) {
				key := short.Draw(t, "match")
				want := []uint64{}
				for id, s := range selectors {
					if selects(s, key) {
						want = append(want, id)
					}
				}
				slices.Sort(want)
				if got := matched(&x, key); !slices.Equal(got, want) {
					t.Fatalf("%q matches %v, want %v", key, got, want)
				}
				if x.size != len(watchers) {
					t.Fatalf("size %d, want %d", x.size, len(watchers))
				}
			},
		})
		for _, w := range watchers {
			x.remove(w)
		}
		if len(x.exact)+len(x.prefix)+len(x.lengths) > 0 || x.ranges != nil {
			t.Fatalf("an empty index holds %+v", x)
		}
	})
}

// TestIndexManyPrefixLengths: past the maps for lengths, prefixes go to the tree.
func TestIndexManyPrefixLengths(t *testing.T) {
	var x index
	var all []*watcher
	for n := range prefixLengthsMax + 40 {
		w := &watcher{id: uint64(n), span: spanOf(prefix(strings.Repeat("\xff", n)))}
		all = append(all, w)
		x.add(w)
	}
	if len(x.lengths) != prefixLengthsMax || x.ranges == nil {
		t.Fatalf("%d lengths, tree %v", len(x.lengths), x.ranges)
	}
	for _, n := range []int{0, 1, prefixLengthsMax - 1, prefixLengthsMax, prefixLengthsMax + 20, 200} {
		want := min(n+1, len(all))
		if got := matched(&x, strings.Repeat("\xff", n)); len(got) != want {
			t.Errorf("a key of %d bytes matches %d prefixes, want %d", n, len(got), want)
		}
	}
	if got := matched(&x, "a"); len(got) != 1 {
		t.Errorf("another key matches %v", got)
	}
	for _, w := range all {
		x.remove(w)
	}
	if len(x.lengths) != 0 || x.ranges != nil {
		t.Fatalf("an empty index holds %+v", x)
	}
}

// TestSpanAsRange: the end of a prefix is its last byte below 0xFF counted up.
func TestSpanAsRange(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{
		{"a", `"a" "b" false`}, {"a\xff", `"a\xff" "b" false`}, {"\xff\xff", `"\xff\xff" "" true`}, {"", `"" "" true`},
	} {
		s := spanOf(prefix(c.prefix)).asRange()
		if got := fmt.Sprintf("%q %q %v", s.lo, s.hi, s.openEnd); got != c.want {
			t.Errorf("%q is %s, want %s", c.prefix, got, c.want)
		}
	}
}
