package store

import "math/bits"

// Odd constants without structure. They are part of the digest: never change them.
const (
	mixA = 0x9e3779b97f4a7c15
	mixB = 0xd6e8feb86659fd93
	mixC = 0xa0761d6478bd642f
	mixD = 0xe7037ed1a0b428db
)

// hash folds every byte of r, header included, into 64 bits by multiply and fold
// (the construction of wyhash). It finds damage and divergence, not forgery.
func (r Rec) hash() uint64 {
	h := uint64(len(r))*mixA ^ mixB
	for len(r) >= 16 {
		h ^= fold(u64(r, 0)^mixC, u64(r, 8)^h)
		r = r[16:]
	}
	var a, b uint64
	if len(r) >= 8 {
		a = u64(r, 0)
		r = r[8:]
	}
	for i := 0; i < len(r); i++ {
		b |= uint64(r[i]) << (8 * i)
	}
	h ^= fold(a^mixC, b^h)
	return fold(h^mixD, mixA)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
