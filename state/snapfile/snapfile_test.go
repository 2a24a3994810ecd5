package snapfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
	"google.golang.org/protobuf/proto"
)

func header() *messages.SnapshotRow {
	return &messages.SnapshotRow{Row: &messages.SnapshotRow_Header{Header: &messages.SnapshotHeader{
		SchemaVersion: 2, ClusterId: []byte("cluster"), Incarnation: 1, AppliedIndex: 99, Revision: 7, CompactRevision: 3,
		ClockMs: 123456, ClockEpoch: 2, ClockReplicaId: 1, ClockNonce: 1 << 60, NextLeaseId: 5, NextSessionId: 6,
		ApplyVersion: 1, Config: messages.DefaultClusterConfig(), Digest: 0xDEADBEEF, CommandCount: 42,
	}}}
}

func current(key, value string) *messages.SnapshotRow {
	return &messages.SnapshotRow{Row: &messages.SnapshotRow_Current{Current: &messages.Record{
		Key: []byte(key), Value: []byte(value), CreateRevision: 1, ModRevision: 2, Version: 2,
	}}}
}

// everyTable has a row or two of each table.
func everyTable() []*messages.SnapshotRow {
	record := func(key string, rev uint64) *messages.Record {
		return &messages.Record{Key: []byte(key), Value: []byte("value of " + key), CreateRevision: 1, ModRevision: rev, Version: 1,
			LeaseId: 4, ContentType: "text/plain", Metadata: []*messages.MetadataEntry{{Name: "n", Value: []byte("v")}}}
	}
	return []*messages.SnapshotRow{
		header(),
		{Row: &messages.SnapshotRow_Floor{Floor: record("a", 2)}},
		{Row: &messages.SnapshotRow_Event{Event: &messages.Event{Revision: 4, Type: messages.EventType_EVENT_TYPE_PUT, Cause: messages.EventCause_EVENT_CAUSE_WRITTEN, Record: record("a", 4)}}},
		{Row: &messages.SnapshotRow_Event{Event: &messages.Event{Revision: 5, OpIndex: 1, Type: messages.EventType_EVENT_TYPE_DELETE, Cause: messages.EventCause_EVENT_CAUSE_EXPIRED, Record: &messages.Record{Key: []byte("b"), ModRevision: 5}}}},
		current("c", ""), current("d", strings.Repeat("long ", 40)),
		{Row: &messages.SnapshotRow_Lease{Lease: &messages.SnapshotLease{Id: 4, TtlMs: 5000, DeadlineMs: 130000, GrantedAt: 3, Renewals: 2}}},
		{Row: &messages.SnapshotRow_Session{Session: &messages.SnapshotSession{Id: 5, LeaseId: 4, LastSequence: 2, Answers: []*messages.SnapshotSession_Answer{{Sequence: 2, Result: &messages.Result{}}}}}},
		{Row: &messages.SnapshotRow_Idempotency{Idempotency: &messages.SnapshotIdempotency{Key: "k", RequestHash: []byte("0123"), Order: 1}}},
		{Row: &messages.SnapshotRow_Cursor{Cursor: &messages.SnapshotCursor{Cursor: &messages.CursorInfo{Name: "c", AfterRevision: 3}}}},
		{Row: &messages.SnapshotRow_Report{Report: &messages.SnapshotReport{ReplicaId: 1, LeaseId: 4, AfterRevision: 6}}},
		{Row: &messages.SnapshotRow_Index{Index: &messages.IndexInfo{Definition: &messages.IndexDefinition{Name: "i", Extractor: &messages.Extractor{By: &messages.Extractor_Field{Field: "f"}}}, Building: true, Cursor: []byte("c"), EntriesPerKeyMax: 9, Engine: 1}}},
		{Row: &messages.SnapshotRow_Sample{Sample: &messages.RevisionSample{Revision: 5, ClockMs: 1000}}},
		{Row: &messages.SnapshotRow_Sample{Sample: &messages.RevisionSample{Revision: 7, ClockMs: 2000}}},
	}
}

// write makes a file with blocks of this many decompressed bytes.
func write(t testing.TB, rows []*messages.SnapshotRow, blockBytes int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := newWriter(&b, blockBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Row(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
	return b.Bytes()
}

// read returns the rows of a file and what ended them, nil for a whole file.
func read(file []byte) ([]*messages.SnapshotRow, error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var rows []*messages.SnapshotRow
	for {
		row, err := r.Next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			if _, again := r.Next(); again != err {
				return rows, fmt.Errorf("the error %w did not stay: %w", err, again)
			}
			return rows, err
		}
		rows = append(rows, row)
	}
}

// refused checks that a file is refused with an offset inside it, and that the rows
// before that are rows of the original.
func refused(t *testing.T, what string, file []byte, original []*messages.SnapshotRow) *Error {
	t.Helper()
	rows, err := read(file)
	if err == nil {
		t.Fatalf("%s: accepted", what)
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: %T %v", what, err, err)
	}
	if e.Offset < 0 || e.Offset > int64(len(file)) || e.Reason == "" {
		t.Fatalf("%s: %v in a file of %d bytes", what, e, len(file))
	}
	same(t, what, rows, original[:min(len(rows), len(original))])
	return e
}

func same(t *testing.T, what string, got, want []*messages.SnapshotRow) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !proto.Equal(got[i], want[i]) {
			t.Fatalf("%s: row %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestRoundTrip(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 200_000)
	for name, rows := range map[string][]*messages.SnapshotRow{
		"every table":              everyTable(),
		"header alone":             {header()},
		"rows larger than a block": {header(), current("a", big), current("b", ""), current("c", big+big), current("d", "x")},
	} {
		for _, blockBytes := range []int{1, 7, 64, 1000, BlockBytesMax} {
			if blockBytes < 1000 && name == "rows larger than a block" {
				continue
			}
			got, err := read(write(t, rows, blockBytes))
			if err != nil {
				t.Fatalf("%s, blocks of %d: %v", name, blockBytes, err)
			}
			same(t, name, got, rows)
		}
	}
}

// TestSameBytes: a file depends on its rows alone.
func TestSameBytes(t *testing.T) {
	if !bytes.Equal(write(t, everyTable(), 64), write(t, everyTable(), 64)) {
		t.Error("two files of the same rows differ")
	}
}

func TestOneByteReads(t *testing.T) {
	file := write(t, everyTable(), 64)
	r, err := NewReader(oneByte{bytes.NewReader(file)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for ; err == nil; n++ {
		_, err = r.Next()
	}
	if err != io.EOF || n-1 != len(everyTable()) {
		t.Errorf("%d rows, %v", n-1, err)
	}
}

type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 1)]) }

func TestWriterRefuses(t *testing.T) {
	footer := &messages.SnapshotRow{Row: &messages.SnapshotRow_Footer{Footer: &messages.SnapshotFooter{}}}
	tests := []struct {
		name string
		rows []*messages.SnapshotRow
	}{
		{"no header", []*messages.SnapshotRow{current("a", "")}},
		{"two headers", []*messages.SnapshotRow{header(), header()}},
		{"a footer", []*messages.SnapshotRow{header(), footer}},
		{"nothing in a row", []*messages.SnapshotRow{header(), {}}},
		{"nil", []*messages.SnapshotRow{header(), nil}},
		{"tables out of order", []*messages.SnapshotRow{header(), everyTable()[6], current("a", "")}},
	}
	for _, tt := range tests {
		w, err := NewWriter(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range tt.rows[:len(tt.rows)-1] {
			if err := w.Row(r); err != nil {
				t.Fatal(err)
			}
		}
		first := w.Row(tt.rows[len(tt.rows)-1])
		if first == nil {
			t.Errorf("%s: accepted", tt.name)
		}
		if again, closed := w.Row(header()), w.Close(); again != first || closed != first {
			t.Errorf("%s: %v, then %v, %v", tt.name, first, again, closed)
		}
	}
	w, _ := NewWriter(io.Discard)
	if w.Close() == nil {
		t.Error("a file without header closed")
	}
}

// TestWriterReportsWriteErrors: whatever write fails, Row or Close says so.
func TestWriterReportsWriteErrors(t *testing.T) {
	_, all := blocks(write(t, everyTable(), 64))
	for fail := range 1 + len(all) { // the file header, then a write a block
		w, err := newWriter(&failing{after: fail}, 64)
		for _, r := range everyTable() {
			if err == nil {
				err = w.Row(r)
			}
		}
		if err == nil {
			err = w.Close()
		}
		if !errors.Is(err, errDisk) {
			t.Fatalf("write %d: %v", fail, err)
		}
	}
}

var errDisk = errors.New("disk")

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestReaderReportsReadErrors(t *testing.T) {
	file := write(t, everyTable(), 64)
	for n := range len(file) + 1 {
		r, err := NewReader(io.MultiReader(bytes.NewReader(file[:n]), broken{}))
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, errDisk) {
			t.Fatalf("read error at %d: %v", n, err)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errDisk }

func TestClosedReader(t *testing.T) {
	r, err := NewReader(bytes.NewReader(write(t, everyTable(), 64)))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	r.Close()
	if _, err := r.Next(); err == nil || err == io.EOF {
		t.Errorf("a closed reader reads: %v", err)
	}
}
