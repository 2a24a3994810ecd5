package store

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/concord-kv/concord/messages"
)

func rowMessage(kind RowKind, r Rec) *messages.SnapshotRow {
	m := &messages.SnapshotRow{OpIndex: r.OpIndex(), Cause: r.Cause()}
	switch kind {
	case RowFloor:
		m.Row = &messages.SnapshotRow_Floor{Floor: r.Proto(false)}
	case RowCurrent:
		m.Row = &messages.SnapshotRow_Current{Current: r.Proto(false)}
	default:
		m = &messages.SnapshotRow{Row: &messages.SnapshotRow_Event{Event: Event{Rec: r}.Proto(false, false)}}
	}
	return m
}

// checkRows: what AppendRow writes is what protobuf writes, and reading it gives the
// record again, with Parse and with protobuf.
func checkRows(t interface{ Fatalf(string, ...any) }, r Rec) {
	for _, kind := range []RowKind{RowFloor, RowEvent, RowCurrent} {
		m := rowMessage(kind, r)
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatalf("%v", err)
		}
		got := AppendRow(nil, kind, r)
		if !bytes.Equal(got, want) {
			t.Fatalf("kind %d of %s: encoded as\n%x, protobuf has\n%x", kind, showRec(r), got, want)
		}
		var row Row
		if !row.Parse(got) || row.Kind() != kind {
			t.Fatalf("kind %d of %s: parsed as kind %d", kind, showRec(r), row.Kind())
		}
		if back, ok := row.rec(); !ok || back != r {
			t.Fatalf("kind %d: %s was parsed as %s", kind, showRec(r), showRec(back))
		}
		if !row.FromMessage(m) {
			t.Fatalf("kind %d of %s: no row", kind, showRec(r))
		}
		if back, ok := row.rec(); !ok || back != r {
			t.Fatalf("kind %d: %s was read as %s", kind, showRec(r), showRec(back))
		}
	}
}

// FuzzRowParse: what Parse takes, protobuf takes and understands in the same way.
func FuzzRowParse(f *testing.F) {
	r := Make(Fields{
		Key: "key", Value: "value", Create: 3, Mod: 300, Version: 4, Lease: 5, OpIndex: 6, Cause: 1, ContentType: "text/plain",
		Metadata: []*messages.MetadataEntry{{Name: "name", Value: []byte("value")}, {Name: "other"}},
	})
	tombstone := Make(Fields{Key: "key", Mod: 9, Create: 2, Tombstone: true, Cause: 2})
	for _, kind := range []RowKind{RowFloor, RowEvent, RowCurrent} {
		f.Add(AppendRow(nil, kind, r))
		f.Add(AppendRow(nil, kind, tombstone))
	}
	f.Add([]byte{0x22, 0x02, 0x3a, 0x00})             // an empty content type that is there
	f.Add([]byte{0x22, 0x00, 0x22, 0x00})             // the row twice
	f.Add([]byte{0x80, 0x01, 0x00, 0x22, 0x00})       // an op index of 0 that is there
	f.Add([]byte{0x22, 0x00, 0x80, 0x01, 0x01})       // an op index after the record
	f.Add([]byte{0x22, 0x03, 0x3a, 0x01, 0xff})       // a content type that is not UTF-8
	f.Add([]byte{0xa2, 0x00, 0x02, 0x08, 0x01})       // a long tag
	f.Add([]byte{0x1a, 0x05, 0x18, 0xff, 0xff, 0, 0}) // an event with a broken type
	f.Fuzz(func(t *testing.T, raw []byte) {
		var row, by Row
		if !row.Parse(raw) {
			return
		}
		m := &messages.SnapshotRow{}
		if err := proto.Unmarshal(raw, m); err != nil || !by.FromMessage(m) {
			t.Fatalf("%x: taken, protobuf says %v, %v", raw, err, m)
		}
		noUnknown(t, m.ProtoReflect())
		if row.kind != by.kind || row.revision != by.revision || row.change != by.change {
			t.Fatalf("%x: parsed as %d, %d, %v; protobuf has %v", raw, row.kind, row.revision, row.change, m)
		}
		got, ok := row.rec()
		want, wanted := by.rec()
		if got != want || ok != wanted {
			t.Fatalf("%x: parsed as %q, protobuf has %q", raw, got, want)
		}
	})
}

func noUnknown(t *testing.T, m protoreflect.Message) {
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("taken with unknown fields: %v", m)
	}
	m.Range(func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch x := v.Interface().(type) {
		case protoreflect.Message:
			noUnknown(t, x)
		case protoreflect.List:
			for i := range x.Len() {
				noUnknown(t, x.Get(i).Message())
			}
		}
		return true
	})
}
