package snapfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/concord-kv/concord/messages"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Reader reads one version 2 file. It believes nothing before the checksum of its
// block, and its memory is bounded by a block and by what the file really holds of
// the present row, whatever lengths the file claims. One goroutine uses it.
type Reader struct {
	r   io.Reader
	dec *zstd.Decoder
	err error // what ended it; io.EOF for a whole file

	offset int64  // of the next byte of the file
	block  int64  // of the block read last
	number uint32 // of the next block
	chain  uint32
	ended  bool // the last block has been read

	buf    []byte // content, verified
	pos    int    // of the next row in buf
	stored []byte // scratch

	rows    uint64 // read so far, the footer included
	claimed uint64 // rows by the block headers
	raw     uint64 // decompressed bytes so far
	last    Table
	size    int // encoded bytes of the row read last

	ahead *ahead // nil: blocks are read when their rows are asked for
}

// NewReader checks the file header. Read errors of r come back in an *Error like
// everything else. Close frees what the reader holds.
func NewReader(r io.Reader) (*Reader, error) {
	head, chain := fileHeader()
	got := make([]byte, fileHeaderBytes)
	if n, err := io.ReadFull(r, got); err != nil {
		return nil, torn(int64(n), "the file header", err)
	}
	switch {
	case string(got[:len(magic)]) != magic:
		return nil, &Error{Offset: 0, Reason: "not a snapshot file of version 2"}
	case crc32.Checksum(got[:len(got)-4], castagnoli) != binary.LittleEndian.Uint32(got[len(got)-4:]):
		return nil, &Error{Offset: 0, Reason: "the checksum of the file header does not hold"}
	case !bytes.Equal(got, head):
		return nil, &Error{Offset: int64(len(magic)), Reason: fmt.Sprintf("format version %d, this program reads %d",
			binary.LittleEndian.Uint32(got[len(magic):]), formatVersion)}
	}
	dec, err := newDecoder()
	if err != nil {
		return nil, err
	}
	return &Reader{r: r, dec: dec, chain: chain, offset: int64(fileHeaderBytes), block: int64(fileHeaderBytes)}, nil
}

// Next returns the next row, the header first; the row is the caller's. It returns
// io.EOF when every row has been returned and the file is complete and whole, to its
// very end; the footer is checked, not returned. Whoever stops earlier knows nothing
// of the file as a whole. Every error stays.
func (r *Reader) Next() (*messages.SnapshotRow, error) {
	encoded, err := r.Encoded()
	if err != nil {
		return nil, err
	}
	return r.Decode(encoded)
}

// Encoded is the first half of Next, for those who can read rows themselves: it
// returns the next row as it is encoded, valid until the next call. The second half,
// which each row must have before the next one, is Decode or Passed.
func (r *Reader) Encoded() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	encoded, err := r.rowBytes()
	r.err = err
	return encoded, err
}

// Decode decodes and checks the row that Encoded returned. Its results are Next's.
func (r *Reader) Decode(encoded []byte) (*messages.SnapshotRow, error) {
	if r.err != nil {
		return nil, r.err
	}
	row, err := r.decode(encoded)
	if err != nil {
		r.err = err
		return nil, err
	}
	return row, nil
}

// Passed is Decode for a row that the caller has understood, to the last field: it
// only checks that a row of this table may stand here. A footer is for Decode.
func (r *Reader) Passed(table Table) error {
	if r.err == nil {
		r.err = r.pass(table)
	}
	return r.err
}

// Close frees the reader's memory; it does not close the reader underneath.
func (r *Reader) Close() {
	if r.ahead != nil {
		r.ahead.stop()
	}
	r.dec.Close()
	r.buf, r.stored = nil, nil
	if r.err == nil {
		r.err = &Error{Offset: r.offset, Reason: "the reader is closed"}
	}
}

func (r *Reader) decode(encoded []byte) (*messages.SnapshotRow, error) {
	row := &messages.SnapshotRow{}
	if err := proto.Unmarshal(encoded, row); err != nil {
		return nil, r.wrong(err, "row %d cannot be decoded", r.rows)
	}
	table := TableOf(row)
	if reason := follows(r.last, table); reason != "" {
		return nil, r.wrong(nil, "row %d: %s", r.rows, reason)
	}
	if len(row.ProtoReflect().GetUnknown()) > 0 {
		return nil, r.wrong(nil, "row %d of table %v has fields that this program does not know", r.rows, table)
	}
	r.last = table
	r.rows++
	if table == TableFooter {
		return nil, r.finish(row.GetFooter())
	}
	return row, nil
}

func (r *Reader) pass(table Table) error {
	if reason := follows(r.last, table); reason != "" {
		return r.wrong(nil, "row %d: %s", r.rows, reason)
	}
	r.last = table
	r.rows++
	return nil
}

// finish checks what only the end can tell; io.EOF means that all is well.
func (r *Reader) finish(footer *messages.SnapshotFooter) error {
	switch {
	case footer.GetRows() != r.rows-1:
		return r.wrong(nil, "the footer says %d rows, there are %d", footer.GetRows(), r.rows-1)
	case r.pos != len(r.buf) || !r.ended:
		return r.wrong(nil, "content after the footer")
	case r.claimed != r.rows:
		return r.wrong(nil, "the blocks say %d rows, there are %d", r.claimed, r.rows)
	}
	switch n, err := io.ReadFull(r.r, make([]byte, 1)); {
	case n > 0:
		return &Error{Offset: r.offset, Reason: "bytes after the last block"}
	case err != io.EOF:
		return torn(r.offset, "the end of the file", err)
	}
	return io.EOF
}

// rowBytes returns the next encoded row, valid until the next call.
func (r *Reader) rowBytes() ([]byte, error) {
	var size uint64
	for {
		v, n := protowire.ConsumeVarint(r.buf[r.pos:])
		if n > 0 {
			size, r.pos = v, r.pos+n
			break
		}
		if len(r.buf)-r.pos >= binary.MaxVarintLen64 {
			return nil, r.wrong(nil, "row %d has no readable length", r.rows)
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
	if size > RowBytesMax {
		return nil, r.wrong(nil, "row %d claims %d bytes, more than %d", r.rows, size, RowBytesMax)
	}
	r.size = int(size)
	for len(r.buf)-r.pos < r.size {
		if err := r.more(); err != nil {
			return nil, err
		}
	}
	encoded := r.buf[r.pos : r.pos+r.size]
	r.pos += r.size
	return encoded, nil
}

// more adds the content of the next block to buf.
func (r *Reader) more() error {
	if r.ended {
		return r.wrong(nil, "row %d is missing or goes on after the last block", r.rows)
	}
	if r.ahead != nil {
		return r.moreAhead()
	}
	h, err := r.header()
	if err != nil {
		return err
	}
	data := r.offset
	r.stored = slices.Grow(r.stored[:0], int(h.stored))[:h.stored]
	n, err := io.ReadFull(r.r, r.stored)
	if r.offset += int64(n); err != nil {
		return torn(r.offset, fmt.Sprintf("block %d", h.number), err)
	}
	if crc32.Checksum(r.stored, castagnoli) != h.checksum {
		return &Error{Offset: data, Reason: fmt.Sprintf("the checksum of block %d does not hold", h.number)}
	}

	r.forget()
	old := len(r.buf)
	room := slices.Grow(r.buf, int(h.raw))[:old+int(h.raw)]
	out, err := r.dec.DecodeAll(r.stored, room[old:old:old+int(h.raw)])
	if err != nil || len(out) != int(h.raw) {
		return &Error{Offset: data, Reason: fmt.Sprintf("block %d does not decompress to %d bytes", h.number, h.raw), Err: err}
	}
	r.buf = room
	r.raw += uint64(h.raw)
	r.claimed += uint64(h.rows)
	r.ended = h.kind == kindLast
	return nil
}

// forget drops the rows before pos, and the memory of a large one.
func (r *Reader) forget() {
	if r.pos == 0 {
		return // in the middle of a large row: moving it for each block would be quadratic
	}
	rest := r.buf[r.pos:]
	if cap(r.buf) > 4*BlockBytesMax && len(rest) < BlockBytesMax {
		r.buf = append(make([]byte, 0, 2*BlockBytesMax), rest...)
	} else {
		r.buf = r.buf[:copy(r.buf, rest)]
	}
	r.pos = 0
}

// header reads and checks the next block header.
func (r *Reader) header() (blockHeader, error) {
	var b, again [blockHeaderBytes]byte
	n, err := io.ReadFull(r.r, b[:])
	r.block = r.offset
	if r.offset += int64(n); err != nil {
		return blockHeader{}, torn(r.offset, fmt.Sprintf("the header of block %d", r.number), err)
	}
	h := getBlockHeader(&b)
	switch chain := h.put(&again, r.chain); {
	case h.chain != chain:
		return h, r.wrong(nil, "the header of block %d is altered or not of this place", r.number)
	case h.number != r.number:
		return h, r.wrong(nil, "block %d where %d belongs", h.number, r.number)
	case h.kind != kindMore && h.kind != kindLast:
		return h, r.wrong(nil, "block %d is of unknown kind %d", h.number, h.kind)
	case h.raw == 0 || h.raw > BlockBytesMax || h.stored == 0 || h.stored > storedBytesMax:
		return h, r.wrong(nil, "block %d claims %d bytes, %d stored", h.number, h.raw, h.stored)
	}
	r.chain = h.chain
	r.number++
	return h, nil
}

// wrong is an error of the block read last or one of its rows.
func (r *Reader) wrong(err error, format string, args ...any) error {
	return &Error{Offset: r.block, Reason: fmt.Sprintf(format, args...), Err: err}
}

// torn is an error of reading what at the offset.
func torn(offset int64, what string, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &Error{Offset: offset, Reason: "the file ends in or before " + what, Err: io.ErrUnexpectedEOF}
	}
	return &Error{Offset: offset, Reason: "reading " + what, Err: err}
}
