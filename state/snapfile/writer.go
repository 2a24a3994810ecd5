package snapfile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/concord-kv/concord/messages"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Writer writes one snapshot file: the header row, the other rows in the order of
// their tables, then Close. Every error stays: later calls return it again, and what
// was written is torn. One goroutine uses it.
type Writer struct {
	w   io.Writer
	enc *zstd.Encoder
	err error

	blockBytes int    // decompressed bytes of every block but the last
	buf        []byte // content that is not in a block yet, less than blockBytes between calls
	ended      uint32 // rows that end in buf
	stored     []byte // scratch

	number uint32 // of the next block
	chain  uint32 // of the header before it
	rows   uint64
	last   Table
}

// NewWriter begins a file on w, which gets one Write for each block and is not
// closed.
func NewWriter(w io.Writer) (*Writer, error) { return newWriter(w, BlockBytesMax) }

func newWriter(w io.Writer, blockBytes int) (*Writer, error) {
	enc, err := newEncoder()
	if err != nil {
		return nil, err
	}
	head, chain := fileHeader()
	if _, err := w.Write(head); err != nil {
		return nil, fmt.Errorf("snapshot file: %w", err)
	}
	return &Writer{w: w, enc: enc, blockBytes: blockBytes, chain: chain}, nil
}

// Row writes one row; r is not kept. It refuses a row out of order, a footer, which
// is Close's to write, and a row larger than RowBytesMax.
func (w *Writer) Row(r *messages.SnapshotRow) error {
	if w.err != nil {
		return w.err
	}
	table := TableOf(r)
	if table == TableFooter {
		return w.fail(errors.New("the footer is written by Close"))
	}
	return w.row(r, table)
}

// Encoded writes a row that is encoded already; it is not kept. The caller answers
// for what it is: a row of table, as protobuf's deterministic encoding has it.
func (w *Writer) Encoded(table Table, row []byte) error {
	if w.err != nil {
		return w.err
	}
	if table == TableFooter {
		return w.fail(errors.New("the footer is written by Close"))
	}
	if err := w.begin(table, len(row)); err != nil {
		return err
	}
	w.buf = append(w.buf, row...)
	return w.end(table)
}

// Close writes the footer and what is left. The file is complete when it returns
// nil; a second call returns the same as the first.
func (w *Writer) Close() error {
	if w.err != nil {
		if w.err == errClosed {
			return nil
		}
		return w.err
	}
	footer := &messages.SnapshotRow{Row: &messages.SnapshotRow_Footer{Footer: &messages.SnapshotFooter{Rows: w.rows}}}
	if err := w.row(footer, TableFooter); err != nil {
		return err
	}
	if err := w.block(kindLast, w.buf, w.ended); err != nil {
		return err
	}
	w.err = errClosed
	return nil
}

var errClosed = errors.New("snapshot file: the writer is closed")

func (w *Writer) row(r *messages.SnapshotRow, table Table) error {
	if err := w.begin(table, proto.Size(r)); err != nil {
		return err
	}
	var err error
	if w.buf, err = (proto.MarshalOptions{UseCachedSize: true, Deterministic: true}).MarshalAppend(w.buf, r); err != nil {
		return w.fail(fmt.Errorf("row %d of table %v: %w", w.rows, table, err))
	}
	return w.end(table)
}

// begin and end stand around a row that is appended to buf.
func (w *Writer) begin(table Table, size int) error {
	if reason := follows(w.last, table); reason != "" {
		return w.fail(errors.New(reason))
	}
	if size > RowBytesMax {
		return w.fail(fmt.Errorf("a row of table %v has %d bytes, more than %d", table, size, RowBytesMax))
	}
	w.buf = protowire.AppendVarint(w.buf, uint64(size))
	return nil
}

func (w *Writer) end(table Table) error {
	w.last = table
	w.rows++
	w.ended++
	return w.flush()
}

// flush moves whole blocks out of buf. Content stays that belongs to the last block,
// so the footer at least is always left for it.
func (w *Writer) flush() error {
	from := 0
	for len(w.buf)-from > w.blockBytes {
		// Only the row just written reaches beyond this block.
		ended := w.ended - 1
		if err := w.block(kindMore, w.buf[from:from+w.blockBytes], ended); err != nil {
			return err
		}
		w.ended = 1
		from += w.blockBytes
	}
	if from == 0 {
		return nil
	}
	rest := w.buf[from:]
	if cap(w.buf) > 4*w.blockBytes {
		w.buf = append(make([]byte, 0, 2*w.blockBytes), rest...) // a large row must not pin its size
	} else {
		w.buf = w.buf[:copy(w.buf, rest)]
	}
	return nil
}

// block writes one block.
func (w *Writer) block(kind byte, raw []byte, rows uint32) error {
	w.stored = w.enc.EncodeAll(raw, append(w.stored[:0], make([]byte, blockHeaderBytes)...))
	data := w.stored[blockHeaderBytes:]
	h := blockHeader{kind: kind, number: w.number, rows: rows, raw: uint32(len(raw)),
		stored: uint32(len(data)), checksum: crc32.Checksum(data, castagnoli)}
	w.chain = h.put((*[blockHeaderBytes]byte)(w.stored), w.chain)
	w.number++
	if _, err := w.w.Write(w.stored); err != nil {
		return w.fail(err)
	}
	return nil
}

func (w *Writer) fail(err error) error {
	w.err = fmt.Errorf("snapshot file: %w", err)
	return w.err
}
