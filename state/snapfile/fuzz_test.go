package snapfile

import (
	"bytes"
	"errors"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// FuzzReader gives the reader files as they are, and, since checksums stop nearly all
// of those early, well-formed files around any content. What it accepts must be
// rows that write and read back the same.
func FuzzReader(f *testing.F) {
	f.Add(golden(f, "version2.snapshot"), false)
	f.Add(golden(f, "version1.snapshot"), false)
	f.Add(encoded(f, append(goldenRows(), footer(uint64(len(goldenRows()))))...), true)
	f.Add(encoded(f, header(), current("a", "1"), footer(2)), true)
	f.Add(encoded(f, header(), footer(1)), true)
	f.Fuzz(func(t *testing.T, data []byte, isContent bool) {
		file := data
		if isContent {
			if len(data) == 0 {
				return
			}
			rows := uint32(countRows(data))
			file = forge(t, data, BlockBytesMax, func(h *blockHeader) { h.rows = rows })
		}
		rows, err := read(file)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(file)) {
				t.Fatalf("%v in a file of %d bytes", err, len(file))
			}
			return
		}
		again, err := read(write(t, rows, 100))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "written again", again, rows)
	})
}

// countRows counts the rows of content as far as lengths make sense, which is what a
// writer would have said of it.
func countRows(content []byte) int {
	r := &Reader{buf: content, ended: true}
	for n := 0; ; n++ {
		if _, err := r.rowBytes(); err != nil {
			return n
		}
	}
}

func FuzzReadV1(f *testing.F) {
	f.Add(golden(f, "version1.snapshot"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		_, rows, err := readV1(file)
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(file))) {
			t.Fatalf("%v in a file of %d bytes", err, len(file))
		}
		for _, r := range rows {
			if len(r.GetKey()) == 0 || len(r.GetKey()) > messages.KeyBytesMax {
				t.Fatalf("a key of %d bytes", len(r.GetKey()))
			}
		}
		if _, err := Inspect(bytes.NewReader(file)); err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
	})
}
