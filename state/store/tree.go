package store

// tree is an ordered map from key to the newest record and its tag, the low bits of
// its place in the log. Nodes are copied on write: freeze costs nothing, and the
// first change of a node after it copies the node.
type tree struct {
	root  kid
	count int
	gen   uint64

	old    Rec // what set replaced
	oldTag uint32
}

// freeze returns the tree as it is now; it never changes and is safe for many
// readers.
func (t *tree) freeze() tree {
	t.gen++
	return tree{root: t.root, count: t.count}
}

func (t *tree) size() int { return t.count }

// get returns the record of key, "" for none.
func (t *tree) get(key string) (Rec, uint32) {
	k := t.root
	for k.inner != nil {
		k = k.inner.kids[k.inner.route(key)]
	}
	if k.leaf == nil {
		return "", 0
	}
	i, ok := k.leaf.search(key)
	if !ok {
		return "", 0
	}
	return k.leaf.recs[i], k.leaf.tags[i]
}

// set stores r under its key and returns what was there.
func (t *tree) set(r Rec, tag uint32) (old Rec, oldTag uint32) {
	t.old, t.oldTag = "", 0
	if t.root.leaf == nil && t.root.inner == nil {
		t.root.leaf = &leaf{stem: stem{gen: t.gen}}
	}
	if sep, right := t.put(&t.root, r.Key(), r, tag); right != (kid{}) {
		n := &inner{stem: stem{gen: t.gen, n: 1}}
		n.kids[0] = t.root
		n.insert(0, sep, right)
		t.root.inner, t.root.leaf = n, nil
	}
	old, oldTag = t.old, t.oldTag
	t.old = ""
	return old, oldTag
}

// put stores r below slot. When the node had to be split it returns the right part
// and the key that separates the two.
func (t *tree) put(slot *kid, key string, r Rec, tag uint32) (sep string, right kid) {
	if slot.inner == nil {
		return t.putLeaf(slot, key, r, tag)
	}
	n := t.ownInner(slot)
	i := n.route(key)
	sep, right = t.put(&n.kids[i], key, r, tag)
	if right == (kid{}) {
		return "", kid{}
	}
	if n.n < innerMax {
		n.insert(i, sep, right)
		return "", kid{}
	}
	return t.splitInner(n, i, sep, right)
}

func (t *tree) putLeaf(slot *kid, key string, r Rec, tag uint32) (sep string, right kid) {
	l := t.ownLeaf(slot)
	i, found := l.search(key)
	if found {
		t.old, t.oldTag = l.recs[i], l.tags[i]
		l.recs[i], l.tags[i] = r, tag
		return "", kid{}
	}
	t.count++
	if l.n < leafMax {
		l.insert(i, r, tag)
		return "", kid{}
	}
	// Keys that come in order leave full nodes behind instead of halves.
	at := leafMax / 2
	switch i {
	case 0:
		at = 0
	case leafMax:
		at = leafMax
	}
	m := &leaf{stem: stem{gen: t.gen, prefix: l.prefix, plen: l.plen}}
	m.n = uint8(copy(m.recs[:], l.recs[at:]))
	copy(m.heads[:], l.heads[at:])
	copy(m.tags[:], l.tags[at:])
	clear(l.recs[at:])
	l.n = uint8(at)
	if i <= at && at < leafMax {
		l.insert(i, r, tag)
	} else {
		m.insert(i-at, r, tag)
	}
	l.refit()
	m.refit()
	return separator(l.recs[l.n-1].Key(), m.recs[0].Key()), kid{leaf: m}
}

// splitInner splits full node n, whose kid i has just been split.
func (t *tree) splitInner(n *inner, i int, sep string, right kid) (string, kid) {
	at := innerMax / 2 // kids that stay
	if i == innerMax-1 {
		at = innerMax - 1
	}
	up := n.seps[at-1]
	m := &inner{stem: stem{gen: t.gen}}
	m.n = uint8(copy(m.kids[:], n.kids[at:]))
	copy(m.seps[:], n.seps[at:])
	clear(n.kids[at:])
	clear(n.seps[at-1:])
	n.n = uint8(at)
	n.refit()
	m.refit()
	if i < at {
		n.insert(i, sep, right)
	} else {
		m.insert(i-at, sep, right)
	}
	return up, kid{inner: m}
}

func (t *tree) ownLeaf(slot *kid) *leaf {
	if slot.leaf.gen != t.gen {
		c := *slot.leaf
		c.gen = t.gen
		slot.leaf = &c
	}
	return slot.leaf
}

func (t *tree) ownInner(slot *kid) *inner {
	if slot.inner.gen != t.gen {
		c := *slot.inner
		c.gen = t.gen
		slot.inner = &c
	}
	return slot.inner
}

// remove deletes key; nothing happens when it is absent.
func (t *tree) remove(key string) {
	if r, _ := t.get(key); r == "" {
		return
	}
	t.count--
	t.drop(&t.root, key)
	for t.root.inner != nil && t.root.inner.n == 1 {
		t.root = t.root.inner.kids[0]
	}
	if t.root.leaf != nil && t.root.leaf.n == 0 {
		t.root = kid{}
	}
}

func (t *tree) drop(slot *kid, key string) {
	if slot.inner == nil {
		l := t.ownLeaf(slot)
		i, _ := l.search(key)
		l.remove(i)
		return
	}
	n := t.ownInner(slot)
	i := n.route(key)
	t.drop(&n.kids[i], key)
	size, full := n.kids[i].size()
	switch {
	case size == 0:
		n.remove(i)
	case size > full/4:
	case i > 0 && t.merge(n, i-1):
	case i+1 < int(n.n):
		t.merge(n, i)
	}
}

func (k kid) size() (n, full int) {
	if k.inner != nil {
		return int(k.inner.n), innerMax
	}
	return int(k.leaf.n), leafMax
}

// merge joins kids i and i+1 when both fit well into one node: two neighbours are
// never nearly empty, whatever is deleted.
func (t *tree) merge(n *inner, i int) bool {
	a, full := n.kids[i].size()
	b, _ := n.kids[i+1].size()
	if a+b > full*3/4 {
		return false
	}
	if n.kids[i].leaf != nil {
		l, m := t.ownLeaf(&n.kids[i]), n.kids[i+1].leaf
		copy(l.recs[a:], m.recs[:b])
		copy(l.tags[a:], m.tags[:b])
		l.n = uint8(a + b)
		l.rehead(common(l.recs[0].Key(), l.recs[l.n-1].Key()))
	} else {
		l, m := t.ownInner(&n.kids[i]), n.kids[i+1].inner
		copy(l.kids[a:], m.kids[:b])
		l.seps[a-1] = n.seps[i]
		copy(l.seps[a:], m.seps[:b-1])
		l.n = uint8(a + b)
		l.refit()
	}
	n.remove(i + 1)
	return true
}
