package transport

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

// buffers are the buffers of all streams. gRPC's own pool has five sizes and clears
// what it hands out, all of it: a message of 40 KiB cost the writing of a mebibyte on
// each side. Here there is a size for each power of two, and nothing is cleared: whoever
// takes a buffer writes all of it before it reads any.
var buffers mem.BufferPool = &bufferPool{}

// Buffers returns the pool, for gRPC's own buffers on other streams with this Codec.
func Buffers() mem.BufferPool { return buffers }

// Sizes of pooled buffers, as powers of two. What is larger is not kept.
const (
	bufferBitsMin = 8
	bufferBitsMax = 21
)

// bufferPool implements mem.BufferPool.
type bufferPool struct {
	sizes [bufferBitsMax + 1]sync.Pool
}

// Get implements mem.BufferPool. What is in the buffer is anybody's.
func (p *bufferPool) Get(n int) *[]byte {
	size := max(bits.Len(uint(max(n, 1)-1)), bufferBitsMin)
	if size > bufferBitsMax {
		b := make([]byte, n)
		return &b
	}
	if b, ok := p.sizes[size].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<size)
	return &b
}

// Put implements mem.BufferPool.
func (p *bufferPool) Put(b *[]byte) {
	// The largest power of two that it can hold: it may come from elsewhere.
	if size := bits.Len(uint(cap(*b))) - 1; size >= bufferBitsMin && size <= bufferBitsMax {
		p.sizes[size].Put(b)
	}
}
