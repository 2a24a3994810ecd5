package transport

import "testing"

// TestBufferPool: a buffer has the length that was asked for, whatever was put back.
func TestBufferPool(t *testing.T) {
	p := &bufferPool{}
	for _, put := range []int{0, 1, 255, 256, 300, 4096, 5000, 1 << bufferBitsMax, 1<<bufferBitsMax + 1, 3 << bufferBitsMax} {
		b := make([]byte, put)
		p.Put(&b)
	}
	for _, n := range []int{0, 1, 255, 256, 257, 4095, 4096, 4097, 1<<bufferBitsMax - 1, 1 << bufferBitsMax, 1<<bufferBitsMax + 1} {
		for range 3 {
			b := p.Get(n)
			if len(*b) != n {
				t.Fatalf("%d bytes, asked for %d", len(*b), n)
			}
			if c := cap(*b); n <= 1<<bufferBitsMax && (c < 1<<bufferBitsMin || c > max(4*n, 1<<(bufferBitsMin+1))) {
				t.Fatalf("a buffer of %d bytes for %d", c, n)
			}
			p.Put(b)
		}
	}
}
