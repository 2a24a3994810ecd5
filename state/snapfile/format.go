// Package snapfile is the container of snapshots, format version 2: rows in
// compressed, checksummed blocks of up to 1 MiB. It also reads version 1 files.
//
// A version 2 file is, all integers little endian:
//
//	file    = magic (8 bytes), format version (uint32),
//	          checksum (uint32) of the 12 bytes before it; then blocks
//	block   = kind (1 byte: 1 more blocks follow, 2 this is the last),
//	          number (uint32, from 0), rows that end in it (uint32),
//	          bytes when decompressed (uint32), bytes stored (uint32),
//	          checksum of the stored bytes (uint32),
//	          checksum of this header (uint32); then the stored bytes
//	content = the decompressed bytes of all blocks, one after another: rows, each a
//	          length (varint) and an encoded messages.SnapshotRow. Rows may span blocks.
//
// Checksums are CRC-32C (Castagnoli). That of a block header continues from the
// header before it, the first from the file's: a block that stood elsewhere, or in
// another file, does not fit. Stored bytes are one zstd frame.
//
// The first row is the header, the last the footer with the number of rows before it;
// between them tables come in the order of the tags of SnapshotRow. After the last block
// the file ends. A file that breaks any of this is refused, with the offset.
package snapfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/concord-kv/concord/messages"
	"github.com/klauspost/compress/zstd"
)

const (
	magic         = "CONCORD\x1a" // the last byte ends a file for those who show it as text
	formatVersion = messages.SnapshotVersion

	fileHeaderBytes  = len(magic) + 4 + 4
	blockHeaderBytes = 1 + 6*4

	kindMore = 1
	kindLast = 2
)

const (
	// BlockBytesMax bounds the decompressed bytes of a block.
	BlockBytesMax = 1 << 20

	// storedBytesMax bounds the stored bytes: what cannot be compressed grows a little.
	storedBytesMax = BlockBytesMax + 4<<10

	// RowBytesMax bounds an encoded row. A row of that size takes as many verified
	// blocks: a reader holds no more of it than the file really has.
	RowBytesMax = 1 << 30
)

// Error is a file that cannot be believed, or could not be read.
type Error struct {
	// Offset is where in the file the trouble was found: of the header or block that is
	// wrong, or that holds the row that is; of the first missing byte when it is torn.
	Offset int64
	Reason string
	// Err is behind it: of the reader underneath, of protobuf or zstd. Often nil.
	Err error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("snapshot file: offset %d: %s", e.Offset, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockHeader stands before the stored bytes of a block.
type blockHeader struct {
	kind         byte
	number, rows uint32
	raw, stored  uint32
	checksum     uint32 // of the stored bytes
	chain        uint32 // of this header and all before it
}

// put writes the header to b and returns its chain, which continues chain.
func (h *blockHeader) put(b *[blockHeaderBytes]byte, chain uint32) uint32 {
	b[0] = h.kind
	for i, v := range []uint32{h.number, h.rows, h.raw, h.stored, h.checksum} {
		binary.LittleEndian.PutUint32(b[1+4*i:], v)
	}
	chain = crc32.Update(chain, castagnoli, b[:blockHeaderBytes-4])
	binary.LittleEndian.PutUint32(b[blockHeaderBytes-4:], chain)
	return chain
}

func getBlockHeader(b *[blockHeaderBytes]byte) blockHeader {
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(b[1+4*i:]) }
	return blockHeader{kind: b[0], number: at(0), rows: at(1), raw: at(2), stored: at(3), checksum: at(4), chain: at(5)}
}

// fileHeader returns the beginning of every file, and the chain that blocks continue.
func fileHeader() ([]byte, uint32) {
	b := append([]byte(nil), magic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	sum := crc32.Checksum(b, castagnoli)
	return binary.LittleEndian.AppendUint32(b, sum), sum
}

// newEncoder makes the compressor: the fastest level, on the caller's core alone, so
// that saving leaves the others to the apply loop.
func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(BlockBytesMax))
}

// newDecoder makes the decompressor: it writes no more than the room it is given.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(BlockBytesMax),
		zstd.WithDecoderMaxWindow(BlockBytesMax), zstd.WithDecodeAllCapLimit(true))
}
