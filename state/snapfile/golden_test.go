package snapfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
)

// The files in testdata were written once, by the first program of their format, and
// no test writes them: every later program must read them.

// goldenRows are the rows of testdata/version2.snapshot, in blocks of 300 bytes.
func goldenRows() []*messages.SnapshotRow {
	rows := []*messages.SnapshotRow{
		{Row: &messages.SnapshotRow_Header{Header: &messages.SnapshotHeader{SchemaVersion: 2, ClusterId: []byte("golden cluster"), Incarnation: 3, AppliedIndex: 1000, Revision: 200, CompactRevision: 100,
			ClockMs: 5_000_000, ClockEpoch: 4, ClockReplicaId: 2, ClockNonce: 0x1234567890ABCDEF, NextLeaseId: 11, NextSessionId: 12, ApplyVersion: 1, Digest: 0xFEDCBA0987654321, CommandCount: 999,
			Config: &messages.ClusterConfig{ValueBytesMax: 1 << 20, LeasesMax: 100_000}}}},
		{Row: &messages.SnapshotRow_Floor{Floor: &messages.Record{Key: []byte("floor"), Value: []byte{0, 1, 0xFF}, CreateRevision: 5, ModRevision: 50, Version: 4}}},
	}
	for i := range uint64(20) {
		rows = append(rows, &messages.SnapshotRow{Row: &messages.SnapshotRow_Event{Event: &messages.Event{Revision: 101 + i, Type: messages.EventType_EVENT_TYPE_PUT, Cause: messages.EventCause_EVENT_CAUSE_WRITTEN,
			Record: &messages.Record{Key: fmt.Appendf(nil, "key/%02d", i%7), Value: fmt.Appendf(nil, `{"n":%d}`, i), CreateRevision: 101 + i%7, ModRevision: 101 + i, Version: 1 + i/7, ContentType: "application/json"}}}})
	}
	return append(rows,
		&messages.SnapshotRow{Row: &messages.SnapshotRow_Current{Current: &messages.Record{Key: []byte("long"), Value: []byte(strings.Repeat("a value longer than a block. ", 30)), CreateRevision: 9, ModRevision: 9, Version: 1, LeaseId: 10,
			Metadata: []*messages.MetadataEntry{{Name: "m", Value: []byte("x")}}}}},
		&messages.SnapshotRow{Row: &messages.SnapshotRow_Lease{Lease: &messages.SnapshotLease{Id: 10, TtlMs: 60_000, DeadlineMs: 5_030_000, GrantedAt: 8, Renewals: 7, Alias: 77}}},
		&messages.SnapshotRow{Row: &messages.SnapshotRow_Session{Session: &messages.SnapshotSession{Id: 11, LeaseId: 10, Label: "l", LastSequence: 3, Acknowledged: 2, Answers: []*messages.SnapshotSession_Answer{{Sequence: 3, Result: &messages.Result{}}}}}},
		&messages.SnapshotRow{Row: &messages.SnapshotRow_Idempotency{Idempotency: &messages.SnapshotIdempotency{Key: "once", RequestHash: bytes.Repeat([]byte{7}, 32), RecordedAtMs: 4_999_000, Order: 1}}},
		&messages.SnapshotRow{Row: &messages.SnapshotRow_Cursor{Cursor: &messages.SnapshotCursor{Cursor: &messages.CursorInfo{Name: "reader", LeaseId: 10, AfterRevision: 150, Counted: true}}}},
		&messages.SnapshotRow{Row: &messages.SnapshotRow_Report{Report: &messages.SnapshotReport{ReplicaId: 2, LeaseId: 10, AfterRevision: 190}}},
		&messages.SnapshotRow{Row: &messages.SnapshotRow_Index{Index: &messages.IndexInfo{Definition: &messages.IndexDefinition{Name: "by-n", Prefix: []byte("key/"), Extractor: &messages.Extractor{By: &messages.Extractor_Field{Field: "n"}}}, Entries: 7, EntriesPerKeyMax: 1024, Engine: 1}}},
		&messages.SnapshotRow{Row: &messages.SnapshotRow_Sample{Sample: &messages.RevisionSample{Revision: 150, ClockMs: 4_900_000}}},
	)
}

// goldenV1 is the content of testdata/version1.snapshot.
func goldenV1() (*messages.SnapshotV1Header, []*messages.SnapshotV1Row) {
	return &messages.SnapshotV1Header{SchemaVersion: 1, TakenAtUnixMs: 1_700_000_000_000}, []*messages.SnapshotV1Row{
		{Key: []byte("a"), Value: []byte("never expires")},
		{Key: []byte("b"), Value: []byte("expires later"), ExpiresAtUnixMs: 1_700_000_060_000},
		{Key: []byte("c"), Value: []byte("has expired"), ExpiresAtUnixMs: 1_699_999_999_999},
		{Key: []byte("d")},
		{Key: []byte{0xFF, 0}, Value: bytes.Repeat([]byte{0xAB}, 300)},
	}
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestGoldenVersion2(t *testing.T) {
	file := golden(t, "version2.snapshot")
	rows, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "golden", rows, goldenRows())
	if _, all := blocks(file); len(all) < 5 {
		t.Errorf("%d blocks", len(all))
	}
}

func readV1(file []byte) (head *messages.SnapshotV1Header, rows []*messages.SnapshotV1Row, err error) {
	err = ReadV1(bytes.NewReader(file), func(h *messages.SnapshotV1Header) error { head = h; return nil },
		func(r *messages.SnapshotV1Row) error { rows = append(rows, r); return nil })
	return head, rows, err
}

func TestGoldenVersion1(t *testing.T) {
	head, rows, err := readV1(golden(t, "version1.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	wantHead, wantRows := goldenV1()
	if !proto.Equal(head, wantHead) || len(rows) != len(wantRows) {
		t.Fatalf("%v and %d rows", head, len(rows))
	}
	for i := range rows {
		if !proto.Equal(rows[i], wantRows[i]) {
			t.Errorf("row %d is %v, want %v", i, rows[i], wantRows[i])
		}
	}
}

// TestTornV1: a cut inside a row is refused where it is; between rows it cannot be told.
func TestTornV1(t *testing.T) {
	file := golden(t, "version1.snapshot")
	edges := map[int]int{} // length of a file that ends between rows -> its rows
	_, rows := goldenV1()
	end := 1 + int(file[0])
	edges[end] = 0
	for i, r := range rows {
		end += protodelimSize(t, r)
		edges[end] = i + 1
	}
	for n := range len(file) {
		_, got, err := readV1(file[:n])
		if want, edge := edges[n]; edge {
			if err != nil || len(got) != want {
				t.Errorf("the first %d bytes: %d rows, %v", n, len(got), err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Offset != int64(n) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

func protodelimSize(t *testing.T, m proto.Message) int {
	var b bytes.Buffer
	if _, err := protodelim.MarshalTo(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

func TestBadV1(t *testing.T) {
	join := func(ms ...proto.Message) []byte {
		var b bytes.Buffer
		for _, m := range ms {
			if _, err := protodelim.MarshalTo(&b, m); err != nil {
				t.Fatal(err)
			}
		}
		return b.Bytes()
	}
	head, _ := goldenV1()
	good := &messages.SnapshotV1Row{Key: []byte("k")}
	tests := []struct {
		name string
		file []byte
	}{
		{"empty", nil},
		{"no header", join(good)},
		{"version 0", join(&messages.SnapshotV1Header{TakenAtUnixMs: 1})},
		{"version 2", join(&messages.SnapshotV1Header{SchemaVersion: 2})},
		{"a long header", append([]byte{0xFF, 0xFF, 0x7F}, make([]byte, 100)...)},
		{"an empty row", append(join(head, good), 0)},
		{"no key", join(head, &messages.SnapshotV1Row{Value: []byte("v")})},
		{"a long key", join(head, &messages.SnapshotV1Row{Key: make([]byte, messages.KeyBytesMax+1)})},
		{"a long value", join(head, &messages.SnapshotV1Row{Key: []byte("k"), Value: make([]byte, messages.ValueBytesCeiling+1)})},
		{"a huge length", append(join(head, good), 0xFF, 0xFF, 0xFF, 0xFF, 0x7F)},
		{"a length without end", append(join(head, good), bytes.Repeat([]byte{0xFF}, 20)...)},
		{"no protobuf", append(join(head, good), 2, 0xFF, 0xFF)},
		{"a row of something else", join(head, &messages.CursorInfo{Name: "n", AfterRevision: 3, Counted: true})},
		{"a version 2 file", golden(t, "version2.snapshot")},
	}
	for _, tt := range tests {
		_, _, err := readV1(tt.file)
		var e *Error
		if !errors.As(err, &e) || e.Offset > int64(len(tt.file)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := NewReader(bytes.NewReader(golden(t, "version1.snapshot"))); err == nil {
		t.Error("a version 1 file opened as version 2")
	}
	stop := errors.New("stop")
	err := ReadV1(bytes.NewReader(join(head, good)), func(*messages.SnapshotV1Header) error { return nil }, func(*messages.SnapshotV1Row) error { return stop })
	if err != stop {
		t.Errorf("the caller's error came back as %v", err)
	}
}

func TestInspect(t *testing.T) {
	file := golden(t, "version2.snapshot")
	info, err := Inspect(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	_, all := blocks(file)
	if info.Version != 2 || info.Header.GetRevision() != 200 || info.Rows != uint64(len(goldenRows())) || info.FileBytes != int64(len(file)) || int(info.Blocks) != len(all) {
		t.Errorf("%+v", info)
	}
	var tables []string
	var content uint64
	for _, ti := range info.Tables {
		tables = append(tables, fmt.Sprintf("%v=%d", ti.Table, ti.Rows))
		content += ti.Bytes
		if ti.Largest == 0 || ti.Largest > ti.Bytes {
			t.Errorf("%+v", ti)
		}
	}
	if got, want := strings.Join(tables, " "), "header=1 floor=1 event=20 current=1 lease=1 session=1 idempotency=1 cursor=1 report=1 index=1 sample=1"; got != want {
		t.Errorf("tables %s, want %s", got, want)
	}
	if content >= info.RawBytes || info.RawBytes > content+200 {
		t.Errorf("%d bytes of rows in %d of content", content, info.RawBytes)
	}

	info, err = Inspect(bytes.NewReader(file[:len(file)-1]))
	if err == nil || info.Header.GetRevision() != 200 || info.Rows == 0 {
		t.Errorf("a torn file: %+v %v", info, err)
	}

	file = golden(t, "version1.snapshot")
	info, err = Inspect(bytes.NewReader(file))
	if err != nil || info.Version != 1 || info.HeaderV1.GetTakenAtUnixMs() != 1_700_000_000_000 || info.Rows != 5 || info.FileBytes != int64(len(file)) {
		t.Errorf("%+v %v", info, err)
	}
	if info, err := Inspect(strings.NewReader("some other file, not ours")); err == nil || info.Version != 0 {
		t.Errorf("%+v %v", info, err)
	}
}
