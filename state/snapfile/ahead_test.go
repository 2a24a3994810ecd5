package snapfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// beside runs work on a goroutine.
func beside(work func()) func() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	return func() { <-done }
}

// readAhead is read with blocks that are read ahead.
func readAhead(file []byte) (rows []*messages.SnapshotRow, err error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	r.Ahead(beside)
	for {
		row, err := r.Next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
}

// TestAheadReadsTheSame: rows, and what is wrong with a file and where, are the same
// whether blocks are read ahead or not, with rows that are smaller and larger than a block
// and than the room before it.
func TestAheadReadsTheSame(t *testing.T) {
	rows := everyTable()
	large := []*messages.SnapshotRow{header(), current("a", strings.Repeat("x", 3*leadBytes)), current("b", "1"),
		current("c", strings.Repeat("yz", leadBytes)), current("d", strings.Repeat("w", 2*BlockBytesMax)), current("e", "")}
	for name, file := range map[string][]byte{
		"blocks of 64": write(t, rows, 64), "blocks of 300": write(t, rows, 300), "one block": write(t, rows, BlockBytesMax),
		"large rows": write(t, large, BlockBytesMax), "large rows, small blocks": write(t, large, 5_000),
	} {
		want, err := read(file)
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := readAhead(file)
		if err != nil {
			t.Fatal(name, err)
		}
		same(t, name, got, want)
	}
	file := write(t, rows, 200)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 3_000 {
		damaged := bytes.Clone(file)
		switch i % 3 {
		case 0:
			damaged = damaged[:r.IntN(len(file))]
		case 1:
			damaged[r.IntN(len(file))] ^= 1 << r.IntN(8)
		case 2:
			damaged = append(damaged, byte(i))
		}
		wantRows, want := read(damaged)
		gotRows, got := readAhead(damaged)
		same(t, fmt.Sprint("damage ", i), gotRows, wantRows)
		var a, b *Error
		if !errors.As(want, &a) || !errors.As(got, &b) || a.Offset != b.Offset || a.Reason != b.Reason {
			t.Fatalf("damage %d: %v, ahead %v", i, want, got)
		}
	}
}

// TestAheadIsAbandoned: a reader that is closed in the middle leaves nothing running.
func TestAheadIsAbandoned(t *testing.T) {
	file := write(t, everyTable(), 64)
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	r.Ahead(beside)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := r.Next(); err == nil {
		t.Error("a closed reader goes on")
	}
}
