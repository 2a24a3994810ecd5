package store

import (
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/concord-kv/concord/messages"
)

// Row is one row of a snapshot for a Loader. What it holds it shares with the bytes
// or the message that it was made from.
type Row struct {
	kind   RowKind
	fields Fields
	// Of an event, which says some things twice.
	revision uint64
	change   messages.EventType
	metadata []*messages.MetadataEntry // scratch
	// contentType is that of the row before: most rows have the same.
	contentType string
}

// Kind returns the kind of the row.
func (row *Row) Kind() RowKind { return row.kind }

func (row *Row) clear() {
	*row = Row{metadata: row.metadata[:0], contentType: row.contentType}
}

// Parse makes row of an encoded messages.SnapshotRow. It takes what AppendRow
// writes, and understands it as protobuf does; ok is false for every other row, also
// a valid one: that is for protobuf and FromMessage. The row may be parsed again.
func (row *Row) Parse(encoded []byte) (ok bool) {
	row.clear()
	c := cursor{rest: encoded, ok: true}
	f := &row.fields
	f.OpIndex = uint32(c.number(tagRowOpIndex, math.MaxUint32))
	f.Cause = messages.EventCause(c.number(tagRowCause, math.MaxInt32))
	outer := len(c.rest) < len(encoded)
	row.kind = RowKind(c.tag(protowire.BytesType))
	body := cursor{rest: c.bytes(), ok: c.ok}
	switch {
	case row.kind == RowFloor, row.kind == RowCurrent:
		row.record(&body)
	case row.kind == RowEvent && !outer:
		row.event(&body)
	default:
		return false
	}
	row.fields.Tombstone = row.fields.Version == 0
	return c.done() && body.done()
}

func (row *Row) event(c *cursor) {
	row.revision = c.number(tagEventRevision, math.MaxUint64)
	row.fields.OpIndex = uint32(c.number(tagEventOpIndex, math.MaxUint32))
	row.change = messages.EventType(c.number(tagEventType, math.MaxInt32))
	row.fields.Cause = messages.EventCause(c.number(tagEventCause, math.MaxInt32))
	body := cursor{rest: c.text(tagEventRecord), ok: c.ok}
	row.record(&body)
	c.ok = c.ok && body.done()
}

func (row *Row) record(c *cursor) {
	f := &row.fields
	f.KeyBytes = c.text(tagKey)
	f.ValueBytes = c.text(tagValue)
	f.Create = c.number(tagCreate, math.MaxUint64)
	f.Mod = c.number(tagMod, math.MaxUint64)
	f.Version = c.number(tagVersion, math.MaxUint64)
	f.Lease = c.number(tagLease, math.MaxUint64)
	contentType := c.text(tagContentType)
	if string(contentType) != row.contentType {
		c.ok = c.ok && utf8.Valid(contentType)
		row.contentType = string(contentType)
	}
	f.ContentType = row.contentType
	for c.at(tagMetadata, protowire.BytesType) {
		body := cursor{rest: c.text(tagMetadata), ok: c.ok}
		name := body.text(tagMetadataName)
		e := &messages.MetadataEntry{Name: string(name), Value: body.text(tagMetadataValue)}
		c.ok = c.ok && body.done() && utf8.Valid(name)
		row.metadata = append(row.metadata, e)
	}
	f.Metadata = row.metadata
}

// FromMessage makes row of a message, which must hold a floor, an event or a current
// row; ok is false for any other.
func (row *Row) FromMessage(m *messages.SnapshotRow) (ok bool) {
	var r *messages.Record
	row.clear()
	f := &row.fields
	f.OpIndex, f.Cause = m.GetOpIndex(), m.GetCause()
	switch of := m.GetRow().(type) {
	case *messages.SnapshotRow_Floor:
		row.kind, r = RowFloor, of.Floor
	case *messages.SnapshotRow_Current:
		row.kind, r = RowCurrent, of.Current
	case *messages.SnapshotRow_Event:
		e := of.Event
		row.kind, r = RowEvent, e.GetRecord()
		row.revision, row.change = e.GetRevision(), e.GetType()
		f.OpIndex, f.Cause = e.GetOpIndex(), e.GetCause()
	default:
		return false
	}
	f.KeyBytes, f.ValueBytes = r.GetKey(), r.GetValue()
	f.Create, f.Mod, f.Version, f.Lease = r.GetCreateRevision(), r.GetModRevision(), r.GetVersion(), r.GetLeaseId()
	f.ContentType, f.Metadata = r.GetContentType(), r.GetMetadata()
	f.Tombstone = f.Version == 0
	return true
}

// rec builds the record. Unlike Make it refuses: ok is false when the row cannot be a
// record.
func (row *Row) rec() (r Rec, ok bool) {
	f := &row.fields
	for _, e := range f.Metadata {
		if len(e.GetName()) > math.MaxUint16 || len(e.GetValue()) > math.MaxUint16 {
			return "", false
		}
	}
	switch {
	case len(f.KeyBytes) == 0, len(f.KeyBytes) > math.MaxUint16, len(f.ContentType) > math.MaxUint16,
		encodedMetadataBytes(f.Metadata) > math.MaxUint16:
		return "", false
	case f.OpIndex > math.MaxUint16, f.Cause < 0, f.Cause > math.MaxUint8, f.Mod == 0, f.Mod > messages.RevisionMax:
		return "", false
	case f.Create > f.Mod, f.Tombstone && len(f.ValueBytes) > 0:
		return "", false
	}
	return Make(*f), true
}

// cursor reads encoded fields that stand in the order of their tags, each once.
// Whatever else stands there is left, and then done is false.
type cursor struct {
	rest []byte
	ok   bool
}

// at reports whether the next field is this one.
func (c *cursor) at(tag protowire.Number, kind protowire.Type) bool {
	want := uint64(tag)<<3 | uint64(kind)
	if want < 0x80 {
		return len(c.rest) > 0 && c.rest[0] == byte(want)
	}
	got, n := protowire.ConsumeVarint(c.rest)
	return n > 0 && got == want
}

// tag takes the tag of the next field, 0 when it is not of this type.
func (c *cursor) tag(kind protowire.Type) protowire.Number {
	tag, got, n := protowire.ConsumeTag(c.rest)
	if n < 0 || got != kind {
		c.ok = false
		return 0
	}
	c.rest = c.rest[n:]
	return tag
}

// number takes a number when it is the next field, 0 when it is not.
func (c *cursor) number(tag protowire.Number, most uint64) uint64 {
	if !c.at(tag, protowire.VarintType) {
		return 0
	}
	c.tag(protowire.VarintType)
	v, n := protowire.ConsumeVarint(c.rest)
	if n < 0 || v > most {
		c.ok = false
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// text takes bytes when they are the next field, nil when they are not.
func (c *cursor) text(tag protowire.Number) []byte {
	if !c.at(tag, protowire.BytesType) {
		return nil
	}
	c.tag(protowire.BytesType)
	return c.bytes()
}

func (c *cursor) bytes() []byte {
	v, n := protowire.ConsumeBytes(c.rest)
	if n < 0 {
		c.ok = false
		return nil
	}
	c.rest = c.rest[n:]
	return v
}

func (c *cursor) done() bool { return c.ok && len(c.rest) == 0 }
