package state

import (
	"math/bits"

	"github.com/concord-kv/concord/messages"
)

// hasher folds numbers and strings into 64 bits, the same on every machine. It
// finds differences between replicas; it does not stand up to forgery. The digest
// of a table is the sum of its rows' hashes, so that a row can leave it again.
type hasher uint64

const (
	hashSeed      = hasher(0x9E3779B97F4A7C15)
	hashMulA      = 0xA0761D6478BD642F
	hashMulB      = 0xE7037ED1A0B428DB
	hashWordBytes = 8
)

// Tables of the digest. A number is never used for another table.
const (
	tableLease = iota + 1
	tableSession
	tableAnswer
	tableIdempotency
	tableCursor
	tableReport
	tableSample
	tableGlobal
	tableConfig
)

func newHash(table uint64) hasher { return hashSeed.u64(table) }

func (h hasher) u64(x uint64) hasher {
	hi, lo := bits.Mul64(uint64(h)^x^hashMulA, x^uint64(h)>>32^hashMulB)
	return hasher(hi ^ lo ^ bits.RotateLeft64(uint64(h), 23))
}

func (h hasher) i64(x int64) hasher { return h.u64(uint64(x)) }

func (h hasher) bool(b bool) hasher {
	if b {
		return h.u64(1)
	}
	return h.u64(0)
}

func (h hasher) str(s string) hasher {
	h = h.u64(uint64(len(s)))
	for len(s) >= hashWordBytes {
		h = h.u64(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
		s = s[hashWordBytes:]
	}
	var tail uint64
	for i := range len(s) {
		tail |= uint64(s[i]) << (8 * i)
	}
	return h.u64(tail)
}

func (h hasher) bytes(b []byte) hasher {
	h = h.u64(uint64(len(b)))
	for len(b) >= hashWordBytes {
		h = h.u64(uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56)
		b = b[hashWordBytes:]
	}
	var tail uint64
	for i := range len(b) {
		tail |= uint64(b[i]) << (8 * i)
	}
	return h.u64(tail)
}

func (h hasher) metadata(entries []*messages.MetadataEntry) hasher {
	h = h.u64(uint64(len(entries)))
	for _, e := range entries {
		h = h.str(e.GetName()).bytes(e.GetValue())
	}
	return h
}

// sum ends the hash: the sum of many must not show the structure of the last word.
func (h hasher) sum() uint64 {
	return uint64(h.u64(uint64(hashSeed)).u64(hashMulA))
}
