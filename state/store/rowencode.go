package store

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/concord-kv/concord/messages"
)

// RowKind is the kind of a snapshot row of records: its tag in messages.SnapshotRow.
type RowKind protowire.Number

// The kinds of rows, in the order of a snapshot.
const (
	RowFloor   RowKind = 2
	RowEvent   RowKind = 3
	RowCurrent RowKind = 4
)

// Tags of messages.SnapshotRow, Event, Record and MetadataEntry. The contracts never
// give a tag another meaning.
const (
	tagRowOpIndex = 16
	tagRowCause   = 17

	tagEventRevision = 1
	tagEventOpIndex  = 2
	tagEventType     = 3
	tagEventCause    = 4
	tagEventRecord   = 5

	tagKey         = 1
	tagValue       = 2
	tagCreate      = 3
	tagMod         = 4
	tagVersion     = 5
	tagLease       = 6
	tagContentType = 7
	tagMetadata    = 8

	tagMetadataName  = 1
	tagMetadataValue = 2
)

// AppendRow appends r as an encoded messages.SnapshotRow: the bytes that protobuf's
// deterministic encoding has, without the messages that it needs for them.
func AppendRow(b []byte, kind RowKind, r Rec) []byte {
	n := recordBytes(r)
	if kind != RowEvent {
		// protobuf writes the choice of a oneof after the other fields.
		b = appendNumber(b, tagRowOpIndex, uint64(r.OpIndex()))
		b = appendNumber(b, tagRowCause, uint64(r.Cause()))
		return appendRecord(appendLength(b, protowire.Number(kind), n), r)
	}
	change := uint64(messages.EventType_EVENT_TYPE_PUT)
	if r.Tombstone() {
		change = uint64(messages.EventType_EVENT_TYPE_DELETE)
	}
	op, cause := uint64(r.OpIndex()), uint64(r.Cause())
	b = appendLength(b, protowire.Number(RowEvent), numberBytes(tagEventRevision, r.Mod())+numberBytes(tagEventOpIndex, op)+
		numberBytes(tagEventType, change)+numberBytes(tagEventCause, cause)+lengthBytes(tagEventRecord, n)+n)
	b = appendNumber(b, tagEventRevision, r.Mod())
	b = appendNumber(b, tagEventOpIndex, op)
	b = appendNumber(b, tagEventType, change)
	b = appendNumber(b, tagEventCause, cause)
	b = appendLength(b, tagEventRecord, n)
	return appendRecord(b, r)
}

// recordBytes returns how many bytes appendRecord appends.
func recordBytes(r Rec) int {
	n := textBytes(tagKey, r.Key()) + textBytes(tagValue, r.Value()) + numberBytes(tagCreate, r.Create()) +
		numberBytes(tagMod, r.Mod()) + numberBytes(tagVersion, r.Version()) + numberBytes(tagLease, r.Lease()) +
		textBytes(tagContentType, r.ContentType())
	eachMetadata(r.rawMetadata(), func(name, value string) {
		m := textBytes(tagMetadataName, name) + textBytes(tagMetadataValue, value)
		n += lengthBytes(tagMetadata, m) + m
	})
	return n
}

func appendRecord(b []byte, r Rec) []byte {
	b = appendText(b, tagKey, r.Key())
	b = appendText(b, tagValue, r.Value())
	b = appendNumber(b, tagCreate, r.Create())
	b = appendNumber(b, tagMod, r.Mod())
	b = appendNumber(b, tagVersion, r.Version())
	b = appendNumber(b, tagLease, r.Lease())
	b = appendText(b, tagContentType, r.ContentType())
	eachMetadata(r.rawMetadata(), func(name, value string) {
		b = appendLength(b, tagMetadata, textBytes(tagMetadataName, name)+textBytes(tagMetadataValue, value))
		b = appendText(b, tagMetadataName, name)
		b = appendText(b, tagMetadataValue, value)
	})
	return b
}

// eachMetadata takes metadata apart as a record keeps it.
func eachMetadata(raw string, fn func(name, value string)) {
	for raw != "" {
		n := 2 + int(u16(Rec(raw), 0))
		name := raw[2:n]
		raw = raw[n:]
		n = 2 + int(u16(Rec(raw), 0))
		fn(name, raw[2:n])
		raw = raw[n:]
	}
}

// Fields that have no value are left out, as the encoding has it.

func appendNumber(b []byte, tag protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, tag, protowire.VarintType), v)
}

func numberBytes(tag protowire.Number, v uint64) int {
	if v == 0 {
		return 0
	}
	return protowire.SizeTag(tag) + protowire.SizeVarint(v)
}

func appendText(b []byte, tag protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return append(appendLength(b, tag, len(s)), s...)
}

func textBytes(tag protowire.Number, s string) int {
	if s == "" {
		return 0
	}
	return lengthBytes(tag, len(s)) + len(s)
}

func appendLength(b []byte, tag protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, tag, protowire.BytesType), uint64(n))
}

func lengthBytes(tag protowire.Number, n int) int {
	return protowire.SizeTag(tag) + protowire.SizeVarint(uint64(n))
}
