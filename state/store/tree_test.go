package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/btree"
)

// treeKeys makes keys of every shape that a node's prefix and heads must survive.
var treeKeys = map[string]func(r *rand.Rand) string{
	"shared prefix": func(r *rand.Rand) string { return fmt.Sprintf("tenant/x/%08d", r.IntN(20_000)) },
	"long shared prefix": func(r *rand.Rand) string {
		return fmt.Sprintf("/registry/pods/%s/namespace-%d/web-%d", strings.Repeat("x", 60), r.IntN(5), r.IntN(5_000))
	},
	"zeros": func(r *rand.Rand) string { return "a" + strings.Repeat("\x00", r.IntN(300)) },
	"equal heads": func(r *rand.Rand) string {
		return []string{"a", "zzzzzzzzzzzzzzzz"}[min(r.IntN(9), 1)] + fmt.Sprint(r.IntN(8_000))
	},
	"short": func(r *rand.Rand) string {
		b := make([]byte, 1+r.IntN(3))
		for i := range b {
			b[i] = "\x00\x01az\xfe\xff"[r.IntN(6)]
		}
		return string(b)
	},
}

// TestTreeAgainstBTree runs random sets and removals beside tidwall/btree, freezes
// now and then, and compares every frozen tree at the end.
func TestTreeAgainstBTree(t *testing.T) {
	for name, key := range treeKeys {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				treeRun(t, rand.New(rand.NewPCG(seed, 1)), key)
			}
		})
	}
}

func treeRun(t *testing.T, r *rand.Rand, key func(*rand.Rand) string) {
	type frozen struct {
		tree tree
		want *btree.Map[string, Rec]
	}
	var (
		tr     tree
		want   btree.Map[string, Rec]
		frozes []frozen
	)
	for i := range 12_000 {
		k := key(r)
		removing := (i/2_000)%2 == 1
		if removing == (r.IntN(5) > 0) {
			tr.remove(k)
			want.Delete(k)
		} else {
			rec := Make(Fields{Key: k, Mod: uint64(i), Version: 1})
			prev, _ := want.Set(k, rec)
			if old, tag := tr.set(rec, uint32(i)); old != prev || old != "" && tag != uint32(old.Mod()) {
				t.Fatalf("step %d: set %q replaced %s tag %d, want %s", i, k, showRec(old), tag, showRec(prev))
			}
		}
		if i%1_500 == 0 {
			frozes = append(frozes, frozen{tr.freeze(), want.Copy()})
		}
		probe := key(r)
		got, _ := tr.get(probe)
		if w, _ := want.Get(probe); got != w {
			t.Fatalf("step %d: get %q: %s, want %s", i, probe, showRec(got), showRec(w))
		}
	}
	frozes = append(frozes, frozen{tr.freeze(), want.Copy()})
	for _, f := range frozes {
		compareTrees(t, r, key, &f.tree, f.want)
	}
	want.Scan(func(k string, _ Rec) bool { tr.remove(k); return true })
	if tr.size() != 0 || tr.root != (kid{}) {
		t.Fatalf("%d records left", tr.size())
	}
}

func compareTrees(t *testing.T, r *rand.Rand, key func(*rand.Rand) string, tr *tree, want *btree.Map[string, Rec]) {
	t.Helper()
	if tr.size() != want.Len() {
		t.Fatalf("%d records, want %d", tr.size(), want.Len())
	}
	for i := range 40 {
		lo, hi := key(r), key(r)
		if i == 0 {
			lo, hi = "", ""
		}
		var w, up, down []Rec
		want.Ascend(lo, func(k string, rec Rec) bool {
			if hi != "" && k >= hi {
				return false
			}
			w = append(w, rec)
			return true
		})
		tr.ascend(lo, hi, func(rec Rec, tag uint32) bool { up = append(up, rec); return tag == uint32(rec.Mod()) })
		tr.descend(lo, hi, func(rec Rec, _ uint32) bool { down = append(down, rec); return true })
		slices.Reverse(down)
		if !slices.Equal(up, w) || !slices.Equal(down, w) {
			t.Fatalf("[%q, %q): %d up, %d down, want %d records", lo, hi, len(up), len(down), len(w))
		}
		seen, stop := 0, 1+len(w)/2
		count := func(Rec, uint32) bool { seen++; return seen < stop }
		if tr.ascend(lo, hi, count); len(w) > 0 && seen != stop {
			t.Fatalf("[%q, %q): went on to %d records after %d", lo, hi, seen, stop)
		}
		seen = 0
		if tr.descend(lo, hi, count); len(w) > 0 && seen != stop {
			t.Fatalf("[%q, %q): went down to %d records after %d", lo, hi, seen, stop)
		}
	}
}

// TestTreeNodesStayFull: keys in order fill nodes, and deleting most of them merges.
func TestTreeNodesStayFull(t *testing.T) {
	const n = 50_000
	for name, at := range map[string]func(i int) int{"up": func(i int) int { return i }, "down": func(i int) int { return n - i }} {
		var tr tree
		for i := range n {
			tr.set(Make(Fields{Key: fmt.Sprintf("key-%08d", at(i)), Version: 1}), 0)
		}
		if leaves := tr.root.leaves(); leaves > n/leafMax*11/10 {
			t.Errorf("%s: %d leaves for %d keys", name, leaves, n)
		}
		for i := range n {
			if i%50 != 0 {
				tr.remove(fmt.Sprintf("key-%08d", at(i)))
			}
		}
		if leaves := tr.root.leaves(); leaves > n/50/(leafMax/4) {
			t.Errorf("%s: %d leaves for %d keys", name, leaves, n/50)
		}
	}
}

func (k kid) leaves() (n int) {
	if k.inner == nil {
		return 1
	}
	for _, c := range k.inner.kids[:k.inner.n] {
		n += c.leaves()
	}
	return n
}
