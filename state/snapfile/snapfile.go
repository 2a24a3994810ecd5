// Package snapfile is the container of snapshots, format version 2: rows in
// compressed, checksummed blocks of about 1 MiB; and a reader of version 1 files.
package snapfile

import (
	"io"

	"github.com/concord-kv/concord/messages"
)

// Writer writes one snapshot file: the header row first, then rows in the order
// of the row tags, then Close.
type Writer struct{}

func NewWriter(w io.Writer) (*Writer, error)        { panic("skeleton") }
func (w *Writer) Row(r *messages.SnapshotRow) error { panic("skeleton") }
func (w *Writer) Close() error                      { panic("skeleton") }

// Reader reads one snapshot file.
type Reader struct{}

func NewReader(r io.Reader) (*Reader, error) { panic("skeleton") }

// Next returns the next row, the header first; io.EOF when the file is complete
// and whole. The footer row is checked, not returned.
func (r *Reader) Next() (*messages.SnapshotRow, error) { panic("skeleton") }
func (r *Reader) Close()                               {}

// Error is a file that cannot be believed, and where.
type Error struct {
	Offset int64
	Reason string
	Err    error
}

func (e *Error) Error() string { panic("skeleton") }

func ReadV1(r io.Reader, header func(*messages.SnapshotV1Header) error, row func(*messages.SnapshotV1Row) error) error {
	panic("skeleton")
}

// Info describes a snapshot file of either version.
type Info struct{}

func Inspect(r io.Reader) (*Info, error) { panic("skeleton") }
