package index

import (
	"encoding/binary"
	"math/bits"

	"github.com/concord-kv/concord/messages"
)

// Digest is a number that differs, but for chance, between tables with different
// definitions, cursors or entries, and does not depend on how a table came to be. It
// is kept incrementally: the work is by indexes, not by entries.
func (t *Table) Digest() uint64 {
	var d uint64
	for _, ix := range t.indexes {
		d += ix.digest(ix.sum)
	}
	return d
}

// FullDigest computes Digest from the entries.
func (t *Table) FullDigest() uint64 {
	var d uint64
	for _, ix := range t.indexes {
		var sum uint64
		ix.entries.Scan(func(entry string) bool {
			sum += ix.hash(entry)
			return true
		})
		d += ix.digest(sum)
	}
	return d
}

// digest mixes the sum of the entries' hashes with everything else of the index.
func (ix *index) digest(sum uint64) uint64 {
	b := make([]byte, 0, 256)
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	text(ix.definition.GetName())
	text(ix.prefix)
	switch by := ix.definition.GetExtractor().GetBy().(type) {
	case *messages.Extractor_Identity:
		b = append(b, 'i')
	case *messages.Extractor_Field:
		b = append(b, 'f')
		text(by.Field)
	case *messages.Extractor_Path_:
		b = append(b, 'p')
		for _, name := range by.Path.GetNames() {
			text(name)
		}
	case *messages.Extractor_Element:
		b = append(b, 'e')
		b = binary.AppendUvarint(b, uint64(by.Element))
	}
	if ix.building {
		b = append(b, 'b')
		text(ix.cursor)
	}
	b = binary.AppendUvarint(b, uint64(ix.perKeyMax))
	b = binary.AppendUvarint(b, uint64(ix.truncated))
	return hash(sum, string(b))
}

// hash is the contribution of one entry. It need not know its index: sums are mixed
// with the definition.
func (ix *index) hash(entry string) uint64 { return hash(0, entry) }

// hash is a multiply-and-fold hash of s: 8 bytes a step, the same on every machine.
// It guards against defects, not against an adversary.
func hash(seed uint64, s string) uint64 {
	const (
		k0 = 0x9E3779B97F4A7C15
		k1 = 0xE7037ED1A0B428DB
	)
	h := fold(seed^k1, uint64(len(s))^k0)
	for len(s) >= 8 {
		h = fold(h^word(s), k0)
		s = s[8:]
	}
	var tail uint64
	for i := len(s) - 1; i >= 0; i-- {
		tail = tail<<8 | uint64(s[i])
	}
	return fold(h^tail, k1)
}

func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// fold never maps a nonzero difference to a fixed point of zero: a plain product
// with a zero operand would forget everything before it.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xA0761D6478BD642F, b)
	return hi ^ lo ^ a
}
