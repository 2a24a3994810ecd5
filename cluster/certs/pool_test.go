package certs

import (
	"bytes"
	"slices"
	"testing"
)

// TestHalfABundleIsNoPool: a file with the older and the newer authority that is cut off in
// the second one is not taken for one with the older alone.
func TestHalfABundleIsNoPool(t *testing.T) {
	var both []byte
	for range 2 {
		ca, err := NewAuthority("ca")
		if err != nil {
			t.Fatal(err)
		}
		both = slices.Concat(both, []byte("# an authority\n"), ca.Pair().Cert)
	}
	if _, err := PoolOf(both); err != nil {
		t.Error(err)
	}
	// The last line feed may be missing.
	for cut := bytes.LastIndex(both, []byte("-----BEGIN")) + 1; cut < len(both)-1; cut++ {
		if _, err := PoolOf(both[:cut]); err == nil {
			t.Fatalf("%d bytes of %d are a pool", cut, len(both))
		}
	}
	damaged := slices.Clone(both)
	damaged[len(damaged)-100] = '!'
	if _, err := PoolOf(damaged); err == nil {
		t.Error("a damaged certificate is taken")
	}
}
