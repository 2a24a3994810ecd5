package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// chains is a model that stays fast over many events: the versions of each key.
type chains struct {
	of        map[string][]Rec
	events    []Rec
	compacted uint64
}

func (c *chains) at(key string, rev uint64) Rec {
	list := c.of[key]
	i, _ := slices.BinarySearchFunc(list, rev, func(r Rec, rev uint64) int {
		if r.Mod() <= rev {
			return -1
		}
		return 1
	})
	if i == 0 || !list[i-1].live() {
		return ""
	}
	return list[i-1]
}

// TestLongLog runs over many segments and blocks, with keys from very hot to cold,
// revisions of up to 3,000 events, sweeps that lag and views that are held.
func TestLongLog(t *testing.T) {
	for seed := range uint64(3) {
		longRun(t, seed)
	}
}

func longRun(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	s, m := New(), &chains{of: map[string][]Rec{}}
	type held struct {
		v         *View
		compacted uint64
		events    int
	}
	var views []held
	for rev := uint64(1); rev <= 20_000; rev++ {
		ops := 1 + r.IntN(2)
		if r.IntN(4_000) == 0 {
			ops = 3_000
		}
		for op := range ops {
			// A tenth of the keys takes most of the writes.
			key := fmt.Sprint("k", r.IntN(1+r.IntN(1+r.IntN(2_000))))
			f := Fields{Key: key, Mod: rev, OpIndex: uint32(op), Version: 1}
			if prev := m.at(key, rev); prev != "" {
				f.Create, f.Version = prev.Create(), prev.Version()+1
				if r.IntN(6) == 0 {
					f.Create, f.Version, f.Tombstone = 0, 0, true
				}
			}
			rec := Make(f)
			s.Put(rec)
			m.of[key] = append(m.of[key], rec)
			m.events = append(m.events, rec)
		}
		switch r.IntN(400) {
		case 0:
			m.compacted = m.compacted + r.Uint64N(rev-m.compacted+1)/2
			s.Compact(m.compacted, nil)
		case 1:
			views = append(views, held{s.View(), m.compacted, len(m.events)})
		}
		s.Sweep(r.IntN(4))
		if rev%1_000 == 0 && s.Digest() != s.FullDigest() {
			t.Fatalf("seed %d revision %d: digest %x, full %x", seed, rev, s.Digest(), s.FullDigest())
		}
	}
	views = append(views, held{s.View(), m.compacted, len(m.events)})
	for s.Sweep(1_000) {
	}
	views = append(views, held{s.View(), m.compacted, len(m.events)})
	for i, h := range views {
		for range 3_000 {
			key := fmt.Sprint("k", r.IntN(1+r.IntN(2_000)))
			rev := h.compacted + r.Uint64N(h.v.Revision()-h.compacted+1)
			if got, _ := h.v.Get(key, rev); got != m.at(key, rev) {
				t.Fatalf("seed %d view %d at %d: get %q at %d: %s, want %s", seed, i, h.v.Revision(), key, rev, showRec(got), showRec(m.at(key, rev)))
			}
		}
		var got []Rec
		h.v.Changes(h.compacted, ^uint32(0), func(e Event) bool { got = append(got, e.Rec); return true })
		from, _ := slices.BinarySearchFunc(m.events[:h.events], h.compacted, func(r Rec, c uint64) int {
			if r.Mod() <= c {
				return -1
			}
			return 1
		})
		if !slices.Equal(got, m.events[from:h.events]) {
			t.Fatalf("seed %d view %d: %d events after %d, want %d", seed, i, len(got), h.compacted, h.events-from)
		}
		if h.v.FullDigest() != h.v.Digest() {
			t.Fatalf("seed %d view %d: digest", seed, i)
		}
	}
	back, err := reload(s.View())
	if err != nil || back.Digest() != s.Digest() || back.FullDigest() != s.Digest() || back.LogicalBytes() != s.LogicalBytes() {
		t.Fatalf("seed %d: loaded store differs: %v", seed, err)
	}
}

// TestHotKeyHistoryIsSearchedFast counts the entries that a read of an old version
// of a key with 200,000 versions looks at.
func TestHotKeyHistoryIsSearchedFast(t *testing.T) {
	const n = 200_000
	s := New()
	for rev := uint64(1); rev <= n; rev++ {
		s.Put(Make(Fields{Key: "lock", Mod: rev, Create: 1, Version: rev}))
	}
	v := s.View()
	worst := 0
	for rev := uint64(1); rev < n; rev += 997 {
		r, tag := v.tree.get("lock")
		c, steps := v.head(r, tag), 0
		for limit := v.first(rev + 1); c.seq >= limit; steps++ {
			e := v.linkAt(c.seq)
			if j := uint64(e.jump); c.seq-j >= limit {
				c.seq -= j
			} else {
				c.seq -= uint64(e.back)
			}
		}
		if got, _ := v.Get("lock", rev); got.Mod() != rev {
			t.Fatalf("at %d: %s", rev, showRec(got))
		}
		worst = max(worst, steps)
	}
	if worst > 60 {
		t.Errorf("%d entries read for one of %d versions", worst, n)
	}
	page := 0
	v.History("lock", 150_000, n, false, func(e Event) bool {
		if want := 150_000 + uint64(page); e.Rec.Mod() != want || e.Prev.Mod() != want-1 {
			t.Fatalf("history: %s, want revision %d", showRec(e.Rec), want)
		}
		page++
		return page < 1_000
	})
	if page != 1_000 {
		t.Errorf("a page of %d", page)
	}
	t.Logf("at most %d entries read for one of %d versions", worst, n)
}
