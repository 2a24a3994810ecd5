package snapfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/concord-kv/concord/messages"
	"google.golang.org/protobuf/proto"
)

const (
	v1HeaderBytesMax = 1 << 10
	v1RowBytesMax    = messages.ValueBytesCeiling + messages.KeyBytesMax + 64
)

// ReadV1 reads a version 1 file: a messages.SnapshotV1Header and messages.SnapshotV1Row
// rows, each after its length as a varint. It calls header once, then row with each
// row, which is theirs to keep, and stops at their first error, which it returns as
// it is. An *Error says what is wrong with the file, and where.
//
// A version 1 file has no checksums and no end mark: one that was cut between two
// rows, or altered inside a value, cannot be told from a whole one. What can be told is
// refused: a row that is cut, that does not decode, has unknown fields, an impossible
// key, or a value beyond messages.ValueBytesCeiling.
func ReadV1(r io.Reader, header func(*messages.SnapshotV1Header) error, row func(*messages.SnapshotV1Row) error) error {
	f := &v1File{r: bufio.NewReaderSize(r, 64<<10)}
	head := &messages.SnapshotV1Header{}
	if err := f.message(head, "the header", v1HeaderBytesMax); err != nil {
		if err == io.EOF {
			return &Error{Reason: "the file is empty", Err: io.ErrUnexpectedEOF}
		}
		return err
	}
	if v := head.GetSchemaVersion(); v != 1 {
		return &Error{Reason: fmt.Sprintf("schema version %d in a version 1 file", v)}
	}
	if err := header(head); err != nil {
		return err
	}
	for n := 0; ; n++ {
		at := f.offset
		m := &messages.SnapshotV1Row{}
		switch err := f.message(m, fmt.Sprintf("row %d", n), v1RowBytesMax); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if k := len(m.GetKey()); k == 0 || k > messages.KeyBytesMax {
			return &Error{Offset: at, Reason: fmt.Sprintf("row %d has a key of %d bytes", n, k)}
		}
		if v := len(m.GetValue()); v > messages.ValueBytesCeiling {
			return &Error{Offset: at, Reason: fmt.Sprintf("row %d has a value of %d bytes", n, v)}
		}
		if err := row(m); err != nil {
			return err
		}
	}
}

// v1File is a version 1 file being read.
type v1File struct {
	r      *bufio.Reader
	offset int64
	buf    []byte
}

// message reads one length-delimited message; io.EOF when the file ends before it.
func (f *v1File) message(m proto.Message, what string, bytesMax int) error {
	at := f.offset
	size, err := binary.ReadUvarint(f)
	switch {
	case err == io.EOF && f.offset == at:
		return io.EOF
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return torn(f.offset, what, io.ErrUnexpectedEOF)
	case err != nil:
		return &Error{Offset: at, Reason: "no readable length of " + what, Err: err}
	case size > uint64(bytesMax):
		return &Error{Offset: at, Reason: fmt.Sprintf("%s claims %d bytes, more than %d", what, size, bytesMax)}
	}
	// Grow by what is there, not by what is claimed.
	f.buf = f.buf[:0]
	for len(f.buf) < int(size) {
		from := len(f.buf)
		f.buf = append(f.buf, make([]byte, min(int(size)-from, max(from, 64<<10)))...)
		n, err := io.ReadFull(f.r, f.buf[from:])
		if f.offset += int64(n); err != nil {
			return torn(f.offset, what, err)
		}
	}
	if err := proto.Unmarshal(f.buf, m); err != nil {
		return &Error{Offset: at, Reason: what + " cannot be decoded", Err: err}
	}
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		return &Error{Offset: at, Reason: what + " is not of version 1", Err: errors.New("unknown fields")}
	}
	return nil
}

// ReadByte makes v1File an io.ByteReader that counts.
func (f *v1File) ReadByte() (byte, error) {
	b, err := f.r.ReadByte()
	if err == nil {
		f.offset++
	}
	return b, err
}
