package store

import (
	"math"
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"
)

func drawFields(t *rapid.T) Fields {
	number := func(name string) uint64 {
		return rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64Range(math.MaxUint32-1, math.MaxUint32+1), rapid.Uint64()).Draw(t, name)
	}
	f := Fields{
		Key: rapid.StringN(1, -1, 40).Draw(t, "key"), ContentType: rapid.StringN(0, -1, 20).Draw(t, "content type"),
		Mod: number("mod"), Lease: number("lease"), OpIndex: uint32(rapid.Uint16().Draw(t, "op")),
		Cause: messages.EventCause(rapid.IntRange(0, 4).Draw(t, "cause")),
	}
	f.Create = rapid.Uint64Range(0, f.Mod).Draw(t, "create")
	if f.Create == 0 {
		f.Create = f.Mod
	}
	for range rapid.IntRange(0, 3).Draw(t, "metadata") {
		value := []byte(rapid.String().Draw(t, "metadata value"))
		f.Metadata = append(f.Metadata, &messages.MetadataEntry{Name: rapid.String().Draw(t, "name"), Value: value})
	}
	if f.Version = number("version"); f.Version == 0 {
		f.Tombstone = true
	} else {
		f.Value = rapid.String().Draw(t, "value")
	}
	return f
}

// TestRecordHoldsItsFields makes records of any fields and takes them apart.
func TestRecordHoldsItsFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFields(t)
		r := Make(f)
		if diff := cmp.Diff(f, r.Fields(), protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
		asBytes := f
		asBytes.Key, asBytes.KeyBytes = "", []byte(f.Key)
		asBytes.Value, asBytes.ValueBytes = "", []byte(f.Value)
		asBytes.ContentType, asBytes.Metadata, asBytes.Extra = "", nil, r
		if Make(asBytes) != r {
			t.Fatal("bytes and a record to copy from give another record")
		}
		want := uint64(RecordBytes + len(f.Key) + len(f.Value) + len(f.ContentType))
		for _, m := range f.Metadata {
			want += uint64(4 + len(m.Name) + len(m.Value))
		}
		if r.LogicalBytes() != want {
			t.Fatalf("%d logical bytes, want %d", r.LogicalBytes(), want)
		}
		if f.Create > 0 && f.Mod > 0 && f.Mod <= messages.RevisionMax {
			checkRows(t, r)
		}
	})
}

// TestRecordLayoutNeverChanges: records are hashed as they lie in memory, so their
// layout and the hash decide the digest that replicas and snapshots compare.
func TestRecordLayoutNeverChanges(t *testing.T) {
	s := New()
	s.Put(Make(Fields{Key: "a", Value: "1", Mod: 1, Version: 1, Lease: 7, Cause: messages.EventCause_EVENT_CAUSE_WRITTEN}))
	s.Put(Make(Fields{
		Key: "b", Value: strings.Repeat("v", 40), Mod: 1, OpIndex: 1, Version: 1, ContentType: "text/plain",
		Metadata: []*messages.MetadataEntry{{Name: "n", Value: []byte("m")}},
	}))
	s.Put(Make(Fields{Key: "a", Value: "2", Mod: 2, Create: 1, Version: 2}))
	s.Put(Make(Fields{Key: "b", Mod: 3, Tombstone: true, Cause: messages.EventCause_EVENT_CAUSE_EXPIRED}))
	s.Compact(1, []Protected{{"b", 0}})
	const digest, bytes = 0xc9f69cccd3f0854c, 446
	if s.Digest() != digest || s.LogicalBytes() != bytes {
		t.Errorf("digest %#x, logical bytes %d; want %#x, %d", s.Digest(), s.LogicalBytes(), uint64(digest), bytes)
	}
}

// TestMakeAllocatesTheRecordOnly and nothing beside it.
func TestMakeAllocatesTheRecordOnly(t *testing.T) {
	f := Fields{KeyBytes: []byte("key"), ValueBytes: make([]byte, 300), Mod: 9, Create: 3, Version: 2, Lease: 4}
	var r Rec
	if n := testing.AllocsPerRun(100, func() { r = Make(f) }); n != 1 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _, _, _ = r.Key(), r.Value(), r.Create(), r.hash() }); n != 0 {
		t.Errorf("%v allocations to read", n)
	}
}
