package store

// ascend visits lo <= key < hi in order until fn returns false, and reports whether
// it never did; hi "" is the end of the key space. fn must not change the tree.
func (t *tree) ascend(lo, hi string, fn func(Rec, uint32) bool) bool {
	return t.root.ascend(lo, hi, fn)
}

// descend is ascend from the highest key down.
func (t *tree) descend(lo, hi string, fn func(Rec, uint32) bool) bool {
	return t.root.descend(lo, hi, fn)
}

func (k kid) ascend(lo, hi string, fn func(Rec, uint32) bool) bool {
	if k.inner == nil {
		if k.leaf == nil {
			return true
		}
		i, e := k.leaf.span(lo, hi)
		for ; i < e; i++ {
			if !fn(k.leaf.recs[i], k.leaf.tags[i]) {
				return false
			}
		}
		return true
	}
	first, last := k.inner.span(lo, hi)
	for i := first; i <= last; i++ {
		// Only the outermost kids can hold keys outside the bounds.
		l, h := "", ""
		if i == first {
			l = lo
		}
		if i == last {
			h = hi
		}
		if !k.inner.kids[i].ascend(l, h, fn) {
			return false
		}
	}
	return true
}

func (k kid) descend(lo, hi string, fn func(Rec, uint32) bool) bool {
	if k.inner == nil {
		if k.leaf == nil {
			return true
		}
		i, e := k.leaf.span(lo, hi)
		for e--; e >= i; e-- {
			if !fn(k.leaf.recs[e], k.leaf.tags[e]) {
				return false
			}
		}
		return true
	}
	first, last := k.inner.span(lo, hi)
	for i := last; i >= first; i-- {
		l, h := "", ""
		if i == first {
			l = lo
		}
		if i == last {
			h = hi
		}
		if !k.inner.kids[i].descend(l, h, fn) {
			return false
		}
	}
	return true
}

// span returns the places from, but not including, end of the keys in the bounds.
func (l *leaf) span(lo, hi string) (from, end int) {
	end = int(l.n)
	if lo != "" {
		from, _ = l.search(lo)
	}
	if hi != "" {
		end, _ = l.search(hi)
	}
	return from, end
}

// span returns the first and the last kid that can hold keys in the bounds.
func (n *inner) span(lo, hi string) (first, last int) {
	last = int(n.n) - 1
	if lo != "" {
		first = n.route(lo)
	}
	if hi != "" {
		last = n.route(hi)
	}
	return first, last
}
