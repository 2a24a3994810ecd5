package state

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestDeadlines compares the queue with a sorted slice.
func TestDeadlines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q deadlines
		var model []deadline
		free := []int32{}
		nextID := uint64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			ms := rapid.Int64Range(0, 20).Draw(t, "ms")
			switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
			case what < 3 || len(model) == 0:
				slot := int32(len(model) + len(free))
				if len(free) > 0 {
					slot, free = free[0], free[1:]
				}
				nextID++
				d := deadline{ms: ms, id: nextID, slot: slot}
				q.add(d)
				model = append(model, d)
			case what == 3:
				i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				q.remove(model[i].slot)
				free = append(free, model[i].slot)
				model = slices.Delete(model, i, i+1)
			default:
				i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				model[i].ms = ms
				q.move(model[i].slot, ms)
			}
			q.check()
			slices.SortFunc(model, func(a, b deadline) int {
				if a.before(b) {
					return -1
				}
				return 1
			})
			limit := rapid.IntRange(0, 10).Draw(t, "limit")
			var got, want []int32
			next := q.due(ms, limit, func(slot int32) { got = append(got, slot) })
			wantNext := int64(0)
			for _, d := range model {
				if d.ms > ms || len(want) == limit {
					wantNext = d.ms
					break
				}
				want = append(want, d.slot)
			}
			if !slices.Equal(got, want) || next != wantNext {
				t.Fatalf("due at %d, limit %d: %v next %d, want %v next %d", ms, limit, got, next, want, wantNext)
			}
		}
	})
}

// TestKeySet compares a set with a map while it grows into a tree, and a fork with
// what it was made of.
func TestKeySet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s keySet
		model := map[string]bool{}
		keys := rapid.SliceOfN(rapid.StringMatching(`[a-e]{1,3}`), 1, 200).Draw(t, "keys")
		for i, k := range keys {
			if i%4 == 3 {
				s.remove(k)
				delete(model, k)
			} else {
				s.add(k)
				model[k] = true
			}
			if i%50 == 20 {
				before := list(&s)
				forked := s.fork()
				forked.add("zzz")
				forked.remove(k)
				if !slices.Equal(list(&s), before) {
					t.Fatal("a fork changed what it was made of")
				}
			}
			if s.len() != len(model) || s.has(k) != model[k] {
				t.Fatalf("after %q: %d keys, want %d", k, s.len(), len(model))
			}
		}
		if got := list(&s); !slices.IsSorted(got) || len(got) != len(model) {
			t.Fatalf("%v", got)
		}
	})
}

func list(s *keySet) (keys []string) {
	s.scan(func(k string) bool {
		keys = append(keys, k)
		return true
	})
	return keys
}
