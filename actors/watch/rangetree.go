package watch

import "hash/maphash"

// node is a treap of ranges, ordered by (start, end), each node knowing the
// highest end below it: a stabbing query visits only branches that can hold an
// answer (the interval tree of Cormen et al., on a treap). The priority is a hash
// of the range, so the shape depends on the contents alone.
type node struct {
	span
	set         set
	priority    uint64
	maxHi       string
	maxOpen     bool
	left, right *node
}

// One seed a process: clients choose the ranges, and must not choose the shape.
var treapSeed = maphash.MakeSeed()

func priorityOf(s span) uint64 {
	var h maphash.Hash
	h.SetSeed(treapSeed)
	h.WriteString(s.lo)
	h.WriteByte(0)
	h.WriteString(s.hi)
	return h.Sum64()
}

func (s span) compare(o span) int {
	switch {
	case s.lo < o.lo:
		return -1
	case s.lo > o.lo:
		return 1
	case s.openEnd != o.openEnd:
		if o.openEnd {
			return -1
		}
		return 1
	case s.hi < o.hi:
		return -1
	case s.hi > o.hi:
		return 1
	}
	return 0
}

func (n *node) update() {
	n.maxHi, n.maxOpen = n.hi, n.openEnd
	for _, c := range [2]*node{n.left, n.right} {
		if c == nil {
			continue
		}
		n.maxOpen = n.maxOpen || c.maxOpen
		n.maxHi = max(n.maxHi, c.maxHi)
	}
}

// insert returns the tree with s in it, and its set.
func (n *node) insert(s span) (*node, *set) {
	if n == nil {
		leaf := &node{span: s, priority: priorityOf(s)}
		leaf.update()
		return leaf, &leaf.set
	}
	var at *set
	switch c := s.compare(n.span); {
	case c == 0:
		return n, &n.set
	case c < 0:
		n.left, at = n.left.insert(s)
		if n.left.priority > n.priority {
			n = n.rotateRight()
		}
	default:
		n.right, at = n.right.insert(s)
		if n.right.priority > n.priority {
			n = n.rotateLeft()
		}
	}
	n.update()
	return n, at
}

// remove returns the tree without s, which must be in it.
func (n *node) remove(s span) *node {
	switch c := s.compare(n.span); {
	case c < 0:
		n.left = n.left.remove(s)
	case c > 0:
		n.right = n.right.remove(s)
	default:
		return merge(n.left, n.right)
	}
	n.update()
	return n
}

func merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a.right = merge(a.right, b)
		a.update()
		return a
	}
	b.left = merge(a, b.left)
	b.update()
	return b
}

func (n *node) rotateRight() *node {
	l := n.left
	n.left, l.right = l.right, n
	n.update()
	return l
}

func (n *node) rotateLeft() *node {
	r := n.right
	n.right, r.left = r.left, n
	n.update()
	return r
}

// stab calls fn for every range that holds key.
func (n *node) stab(key string, fn func(*set)) {
	for n != nil && (n.maxOpen || key < n.maxHi) {
		n.left.stab(key, fn)
		if key < n.lo {
			return // everything to the right starts even later
		}
		if n.openEnd || key < n.hi {
			fn(&n.set)
		}
		n = n.right
	}
}
