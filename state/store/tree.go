package store

import "github.com/tidwall/btree"

type item struct {
	rec Rec
	tag uint32
}

// tree is a copy-on-write ordered map from key to the newest record and the low
// bits of its place in the log.
type tree struct {
	t      *btree.BTreeG[item]
	frozen *btree.BTreeG[item]
}

func newTree() tree {
	return tree{t: btree.NewBTreeGOptions(func(a, b item) bool { return a.rec.Key() < b.rec.Key() }, btree.Options{NoLocks: true})}
}

func pivot(key string) item { return item{rec: Make(Fields{Key: key, Version: 1})} }

func (t *tree) get(key string) (Rec, uint32) {
	x, _ := t.t.Get(pivot(key))
	return x.rec, x.tag
}

func (t *tree) set(r Rec, tag uint32) (Rec, uint32) {
	t.frozen = nil
	x, _ := t.t.Set(item{r, tag})
	return x.rec, x.tag
}

func (t *tree) remove(key string) { t.frozen = nil; t.t.Delete(pivot(key)) }

func (t *tree) size() int { return t.t.Len() }

func (t *tree) freeze() tree {
	if t.frozen == nil {
		t.frozen = t.t.Copy()
	}
	return tree{t: t.frozen}
}

func (t *tree) ascend(lo, hi string, fn func(Rec, uint32) bool) bool {
	ok := true
	t.t.Ascend(pivot(lo), func(x item) bool {
		if hi != "" && x.rec.Key() >= hi {
			return false
		}
		ok = fn(x.rec, x.tag)
		return ok
	})
	return ok
}

func (t *tree) descend(lo, hi string, fn func(Rec, uint32) bool) bool {
	ok := true
	visit := func(x item) bool {
		k := x.rec.Key()
		if k < lo {
			return false
		}
		if hi != "" && k >= hi {
			return true
		}
		ok = fn(x.rec, x.tag)
		return ok
	}
	if hi == "" {
		t.t.Reverse(visit)
	} else {
		t.t.Descend(pivot(hi), visit)
	}
	return ok
}
