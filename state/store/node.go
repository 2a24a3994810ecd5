package store

import "strings"

// Sizes of nodes fill allocation classes of the runtime: 1,024 and 1,280 bytes. Twice
// as large, reads and plain writes gain 3 %, and writes that copy nodes because a view
// is out lose 20 %.
const (
	leafMax   = 34
	innerMax  = 30
	prefixMax = 54
)

// stem is what every node starts with: the bytes that its keys share, kept in the
// node so that comparing them costs no cache miss.
type stem struct {
	gen    uint64 // of the tree that may change the node in place
	prefix [prefixMax]byte
	plen   uint8
	n      uint8
}

// leaf holds records in key order. heads[i] is the 8 bytes of the key of recs[i]
// after the prefix, as a number that compares as they do: a search reads heads, and
// a record only when heads are equal.
type leaf struct {
	stem
	heads [leafMax]uint64
	recs  [leafMax]Rec
	tags  [leafMax]uint32
}

// inner holds n kids; keys at or above seps[i] are in kids[i+1] or after. The prefix
// is that of the separators: keys need not have it.
type inner struct {
	stem
	heads [innerMax - 1]uint64
	seps  [innerMax - 1]string
	kids  [innerMax]kid
}

// kid is a leaf or an inner node.
type kid struct {
	inner *inner
	leaf  *leaf
}

// head returns the first 8 bytes of s as a number; zeros stand for missing ones.
func head(s string) (h uint64) {
	if len(s) >= 8 {
		s = s[:8]
		return uint64(s[7]) | uint64(s[6])<<8 | uint64(s[5])<<16 | uint64(s[4])<<24 |
			uint64(s[3])<<32 | uint64(s[2])<<40 | uint64(s[1])<<48 | uint64(s[0])<<56
	}
	for i := 0; i < len(s); i++ {
		h |= uint64(s[i]) << (56 - 8*i)
	}
	return h
}

// side compares key with the prefix: 0 when it has it, and then its head; else -1 or
// 1 when it sorts before or after every key that has it.
func (s *stem) side(key string) (h uint64, side int) {
	p := int(s.plen)
	if len(key) >= p && key[:p] == string(s.prefix[:p]) {
		return head(key[p:]), 0
	}
	if key < string(s.prefix[:p]) {
		return 0, -1
	}
	return 0, 1
}

func (s *stem) setPrefix(p string) {
	s.plen = uint8(copy(s.prefix[:], p))
}

// lowerBound returns the first index whose head is not below h.
func lowerBound(heads []uint64, h uint64) int {
	i, n := 0, len(heads)
	for n > 1 {
		half := n / 2
		if heads[i+half-1] < h {
			i += half
		}
		n -= half
	}
	if n == 1 && heads[i] < h {
		i++
	}
	return i
}

// equalRun returns the end of the heads equal to heads[i].
func equalRun(heads []uint64, i int) int {
	e := i + 1
	for e < len(heads) && heads[e] == heads[i] {
		e++
	}
	return e
}

// search returns the place of key among the records and whether it is there.
func (l *leaf) search(key string) (int, bool) {
	h, side := l.side(key)
	if side != 0 {
		if side < 0 {
			return 0, false
		}
		return int(l.n), false
	}
	heads := l.heads[:l.n]
	i := lowerBound(heads, h)
	if i == len(heads) || heads[i] != h {
		return i, false
	}
	for e := equalRun(heads, i); i < e; {
		m := (i + e) / 2
		k := l.recs[m].Key()
		if k == key {
			return m, true
		}
		if k < key {
			i = m + 1
		} else {
			e = m
		}
	}
	return i, false
}

// route returns the kid that holds key.
func (n *inner) route(key string) int {
	h, side := n.side(key)
	if side < 0 || n.n == 1 {
		return 0
	}
	if side > 0 {
		return int(n.n) - 1
	}
	heads := n.heads[:n.n-1]
	i := lowerBound(heads, h)
	if i == len(heads) || heads[i] != h {
		return i
	}
	for e := equalRun(heads, i); i < e; {
		if m := (i + e) / 2; n.seps[m] <= key {
			i = m + 1
		} else {
			e = m
		}
	}
	return i
}

// insert puts a record at place i; the leaf is not full.
func (l *leaf) insert(i int, r Rec, tag uint32) {
	n := int(l.n)
	copy(l.heads[i+1:n+1], l.heads[i:n])
	copy(l.recs[i+1:n+1], l.recs[i:n])
	copy(l.tags[i+1:n+1], l.tags[i:n])
	l.recs[i], l.tags[i] = r, tag
	l.n++
	key := r.Key()
	if h, side := l.side(key); side == 0 {
		l.heads[i] = h
		return
	}
	l.rehead(common(string(l.prefix[:l.plen]), key))
}

// remove takes out the record at place i.
func (l *leaf) remove(i int) {
	n := int(l.n)
	copy(l.heads[i:n-1], l.heads[i+1:n])
	copy(l.recs[i:n-1], l.recs[i+1:n])
	copy(l.tags[i:n-1], l.tags[i+1:n])
	l.recs[n-1] = ""
	l.n--
}

// rehead makes the first p bytes of the keys the prefix.
func (l *leaf) rehead(p int) {
	l.setPrefix(l.recs[0].Key()[:min(p, prefixMax)])
	for i := range l.recs[:l.n] {
		l.heads[i] = head(l.recs[i].Key()[l.plen:])
	}
}

// worthwhile is by how many bytes a prefix must grow for the heads to be computed
// again, which reads every record of the leaf.
const worthwhile = 4

// refit lengthens the prefix when that makes the heads tell much more.
func (l *leaf) refit() {
	if l.n < 2 {
		return
	}
	p := min(common(l.recs[0].Key(), l.recs[l.n-1].Key()), prefixMax)
	if p >= int(l.plen)+worthwhile {
		l.rehead(p)
	}
}

// refit computes prefix and heads from the separators.
func (n *inner) refit() {
	if n.n < 2 {
		n.plen = 0
		return
	}
	seps := n.seps[:n.n-1]
	n.setPrefix(seps[0][:min(common(seps[0], seps[len(seps)-1]), prefixMax)])
	for i, s := range seps {
		n.heads[i] = head(s[n.plen:])
	}
}

// insert puts a kid after kids[i], with sep between the two; the node is not full.
func (n *inner) insert(i int, sep string, k kid) {
	c := int(n.n)
	copy(n.kids[i+2:c+1], n.kids[i+1:c])
	copy(n.seps[i+1:c], n.seps[i:c-1])
	copy(n.heads[i+1:c], n.heads[i:c-1])
	n.kids[i+1], n.seps[i] = k, sep
	n.n++
	if h, side := n.side(sep); side == 0 && c > 1 {
		n.heads[i] = h
		return
	}
	n.refit()
}

// remove takes out kids[i] and a separator beside it.
func (n *inner) remove(i int) {
	c := int(n.n)
	copy(n.kids[i:c-1], n.kids[i+1:c])
	n.kids[c-1] = kid{}
	if s := max(i-1, 0); c > 1 {
		copy(n.seps[s:c-2], n.seps[s+1:c-1])
		copy(n.heads[s:c-2], n.heads[s+1:c-1])
		n.seps[c-2] = ""
	}
	n.n--
}

// common returns the length of the longest common prefix.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// separator returns a short key above a and not above b; a < b. It is a copy: a part
// of a record's key would keep the record in memory.
func separator(a, b string) string { return strings.Clone(b[:common(a, b)+1]) }
