package snapfile

// Async runs work beside its caller and returns what waits for its end. A program that
// has no goroutines to give may run work at once and return a function that does nothing.
type Async func(work func()) (wait func())

// Ahead makes the reader read and decompress each block by async while the rows of the
// one before it are taken: half of the time of a load is that. It is called before the
// first row is asked for. The reader underneath, and its errors, then come from async's
// side; one call of it is out at most, and Close waits for it.
func (r *Reader) Ahead(async Async) {
	blocks := &Reader{r: r.r, dec: r.dec, chain: r.chain, offset: r.offset, block: r.block, number: r.number}
	r.ahead = &ahead{async: async, blocks: blocks}
	r.ahead.begin(nil)
}

// ahead is a reader of blocks that knows nothing of rows. Between begin and stop all of
// it belongs to what async runs.
type ahead struct {
	async  Async
	blocks *Reader // its buf: leadBytes of room, then the content of one block
	err    error
	wait   func() // nil: nothing is out
}

// leadBytes before a block are room for the row that began in the block before it.
const leadBytes = 64 << 10

// begin reads the next block into a buffer, which may be a used one.
func (a *ahead) begin(buf []byte) {
	if cap(buf) < leadBytes || cap(buf) > 4*BlockBytesMax {
		buf = make([]byte, leadBytes, leadBytes+BlockBytesMax)
	}
	a.blocks.buf, a.blocks.pos = buf[:leadBytes], 0
	a.wait = a.async(func() { a.err = a.blocks.more() })
}

func (a *ahead) stop() {
	if a.wait != nil {
		a.wait()
		a.wait = nil
	}
}

// moreAhead is more where the block has been read already, or is being read.
func (r *Reader) moreAhead() error {
	a := r.ahead
	a.stop()
	b := a.blocks
	r.offset, r.block, r.raw, r.claimed, r.ended = b.offset, b.block, b.raw, b.claimed, b.ended
	if a.err != nil {
		return a.err
	}
	var used []byte
	if rest := r.buf[r.pos:]; len(rest) <= leadBytes {
		start := leadBytes - len(rest)
		copy(b.buf[start:], rest)
		used, r.buf, r.pos = r.buf, b.buf, start
	} else {
		r.forget()
		used, r.buf = b.buf, append(r.buf, b.buf[leadBytes:]...)
	}
	if !r.ended {
		a.begin(used)
	}
	return nil
}
