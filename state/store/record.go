package store

import "github.com/concord-kv/concord/messages"

// Rec is one stored version of one key: header, key, content type, metadata and
// value in one immutable string. "" is no record. Make builds it; the accessors
// read it without allocating and must not be called on "".
//
// Layout, little endian, and part of the digest, so it can never change:
//
//	u64 mod revision | u16 op index | u16 key length | u8 flags | u8 cause
//	[u32 or u64 version] [u64 create revision] [u64 lease]
//	[u16 content type length, u16 metadata length]
//	key | content type | metadata | value
//
// A version of 1 (0 for a tombstone), a create revision equal to the mod revision,
// a zero lease, and content type and metadata that are both empty are left out.
type Rec string

const (
	flagTombstone = 1 << iota
	flagCreate
	flagLease
	flagExtra
	flagVersion32
	flagVersion64
	flagsEnd
)

const (
	offOp    = 8
	offKey   = 10
	offFlags = 12
	offCause = 13
	fixed    = 14
)

// RecordBytes is what a record counts in LogicalBytes beside its key, content
// type, metadata and value. EventBytes is what an event counts beside records.
const (
	RecordBytes = 64
	EventBytes  = 64
)

// headerBytes has the length of the header by flags.
var headerBytes = func() (t [flagsEnd]uint8) {
	for f := range t {
		n := fixed
		if f&flagVersion32 != 0 {
			n += 4
		}
		if f&flagVersion64 != 0 {
			n += 8
		}
		if f&flagCreate != 0 {
			n += 8
		}
		if f&flagLease != 0 {
			n += 8
		}
		if f&flagExtra != 0 {
			n += 4
		}
		t[f] = uint8(n)
	}
	return t
}()

func (r Rec) flags() uint8 { return r[offFlags] & (flagsEnd - 1) }

// Key returns the key. It shares the record's memory.
func (r Rec) Key() string {
	at := int(headerBytes[r.flags()])
	return string(r[at : at+int(u16(r, offKey))])
}

// Value returns the value. It shares the record's memory.
func (r Rec) Value() string {
	at := int(headerBytes[r.flags()]) + int(u16(r, offKey))
	if f := r.flags(); f&flagExtra != 0 {
		x := int(headerBytes[f]) - 4
		at += int(u16(r, x)) + int(u16(r, x+2))
	}
	return string(r[at:])
}

// Mod returns the revision that wrote the record.
func (r Rec) Mod() uint64 { return u64(r, 0) }

// OpIndex returns the position of the event among those of its revision.
func (r Rec) OpIndex() uint32 { return uint32(u16(r, offOp)) }

// Cause says why the key changed.
func (r Rec) Cause() messages.EventCause { return messages.EventCause(r[offCause]) }

// Tombstone reports whether the record says that the key was deleted.
func (r Rec) Tombstone() bool { return r[offFlags]&flagTombstone != 0 }

// Version returns the number of writes since the key was created; 0 for a tombstone.
func (r Rec) Version() uint64 {
	switch f := r.flags(); {
	case f&flagVersion32 != 0:
		return uint64(u32(r, fixed))
	case f&flagVersion64 != 0:
		return u64(r, fixed)
	case f&flagTombstone != 0:
		return 0
	}
	return 1
}

// Create returns the revision that created the key.
func (r Rec) Create() uint64 {
	f := r.flags()
	if f&flagCreate == 0 {
		return r.Mod()
	}
	return u64(r, int(headerBytes[f&(flagVersion32|flagVersion64)]))
}

// Lease returns the attached lease; 0 for none.
func (r Rec) Lease() uint64 {
	f := r.flags()
	if f&flagLease == 0 {
		return 0
	}
	return u64(r, int(headerBytes[f&(flagVersion32|flagVersion64|flagCreate)]))
}

// ContentType returns the content type. It shares the record's memory.
func (r Rec) ContentType() string {
	f := r.flags()
	if f&flagExtra == 0 {
		return ""
	}
	at := int(headerBytes[f])
	n := int(u16(r, at-4))
	at += int(u16(r, offKey))
	return string(r[at : at+n])
}

// Metadata returns the metadata in new memory; nil for none.
func (r Rec) Metadata() []*messages.MetadataEntry {
	var list []*messages.MetadataEntry
	r.EachMetadata(func(name, value string) bool {
		list = append(list, &messages.MetadataEntry{Name: name, Value: []byte(value)})
		return true
	})
	return list
}

// EachMetadata visits the metadata in order of name, without allocating, until fn
// returns false. The strings share the record's memory.
func (r Rec) EachMetadata(fn func(name, value string) bool) {
	for raw := r.rawMetadata(); raw != ""; {
		n := int(u16(Rec(raw), 0))
		name := raw[2 : 2+n]
		raw = raw[2+n:]
		n = int(u16(Rec(raw), 0))
		if !fn(name, raw[2:2+n]) {
			return
		}
		raw = raw[2+n:]
	}
}

func (r Rec) rawMetadata() string {
	f := r.flags()
	if f&flagExtra == 0 {
		return ""
	}
	at := int(headerBytes[f])
	n := int(u16(r, at-2))
	at += int(u16(r, offKey)) + int(u16(r, at-4))
	return string(r[at : at+n])
}

// Len returns the bytes of memory that the record takes.
func (r Rec) Len() int { return len(r) }

// LogicalBytes returns what the record counts against the quota: RecordBytes and
// the bytes of key, content type, encoded metadata and value.
func (r Rec) LogicalBytes() uint64 {
	return uint64(RecordBytes + len(r) - int(headerBytes[r.flags()]))
}

// live reports whether r is a record of an existing key.
func (r Rec) live() bool { return r != "" && !r.Tombstone() }

// older reports whether the event of r came before {rev, op}.
func (r Rec) older(rev uint64, op uint32) bool {
	return r.Mod() < rev || r.Mod() == rev && r.OpIndex() < op
}

func u16(r Rec, at int) uint16 { return uint16(r[at]) | uint16(r[at+1])<<8 }

func u32(r Rec, at int) uint32 {
	s := r[at : at+4]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func u64(r Rec, at int) uint64 {
	s := r[at : at+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
