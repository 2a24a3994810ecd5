package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/concord-kv/concord/messages"
)

// Fields is a record taken apart.
type Fields struct {
	// Key, or the same as bytes: KeyBytes counts when it is not nil.
	Key      string
	KeyBytes []byte
	// Value, or the same as bytes: ValueBytes counts when it is not nil.
	Value      string
	ValueBytes []byte

	ContentType string
	Metadata    []*messages.MetadataEntry // sorted by name
	// Extra, when not "", is a record whose content type and metadata are taken
	// instead of the two above.
	Extra Rec

	Create    uint64 // 0: Mod
	Mod       uint64
	Version   uint64 // 0 exactly for a tombstone
	Lease     uint64
	OpIndex   uint32
	Cause     messages.EventCause
	Tombstone bool
}

// Make builds a record with one allocation. It copies all it is given. Sizes must
// have been checked against the limits: it panics on a key, content type or
// metadata longer than its length field, and on an op index past 65,535.
func Make(f Fields) Rec {
	keyBytes, valueBytes := len(f.Key), len(f.Value)
	if f.KeyBytes != nil {
		keyBytes = len(f.KeyBytes)
	}
	if f.ValueBytes != nil {
		valueBytes = len(f.ValueBytes)
	}
	contentType := f.ContentType
	var metadataBytes int
	if f.Extra != "" {
		contentType, metadataBytes = f.Extra.ContentType(), len(f.Extra.rawMetadata())
	} else {
		metadataBytes = encodedMetadataBytes(f.Metadata)
	}
	checkLengths(&f, keyBytes, len(contentType), metadataBytes)

	var head [fixed + 8 + 8 + 8 + 4]byte
	n := putHeader(&head, &f, keyBytes, len(contentType), metadataBytes)
	var b strings.Builder
	b.Grow(n + keyBytes + len(contentType) + metadataBytes + valueBytes)
	b.Write(head[:n])
	if f.KeyBytes != nil {
		b.Write(f.KeyBytes)
	} else {
		b.WriteString(f.Key)
	}
	b.WriteString(contentType)
	if f.Extra != "" {
		b.WriteString(f.Extra.rawMetadata())
	} else {
		writeMetadata(&b, f.Metadata)
	}
	if f.ValueBytes != nil {
		b.Write(f.ValueBytes)
	} else {
		b.WriteString(f.Value)
	}
	return Rec(b.String())
}

// Fields takes r apart. Strings share its memory, metadata is new. Make of it gives
// r again.
func (r Rec) Fields() Fields {
	return Fields{
		Key: r.Key(), Value: r.Value(), ContentType: r.ContentType(), Metadata: r.Metadata(),
		Create: r.Create(), Mod: r.Mod(), Version: r.Version(), Lease: r.Lease(),
		OpIndex: r.OpIndex(), Cause: r.Cause(), Tombstone: r.Tombstone(),
	}
}

func checkLengths(f *Fields, key, contentType, metadata int) {
	switch {
	case key > math.MaxUint16, contentType > math.MaxUint16, metadata > math.MaxUint16, f.OpIndex > math.MaxUint16:
		panic(fmt.Sprintf("store: record past its limits: key %d, content type %d, metadata %d bytes, op index %d",
			key, contentType, metadata, f.OpIndex))
	case f.Tombstone != (f.Version == 0):
		panic(fmt.Sprintf("store: version %d with tombstone %v", f.Version, f.Tombstone))
	}
}

func putHeader(head *[fixed + 28]byte, f *Fields, keyBytes, contentTypeBytes, metadataBytes int) int {
	var flags uint8
	le := binary.LittleEndian
	n := fixed
	switch {
	case f.Tombstone:
		flags |= flagTombstone
	case f.Version > math.MaxUint32:
		flags |= flagVersion64
		le.PutUint64(head[n:], f.Version)
		n += 8
	case f.Version > 1:
		flags |= flagVersion32
		le.PutUint32(head[n:], uint32(f.Version))
		n += 4
	}
	if f.Create != 0 && f.Create != f.Mod {
		flags |= flagCreate
		le.PutUint64(head[n:], f.Create)
		n += 8
	}
	if f.Lease != 0 {
		flags |= flagLease
		le.PutUint64(head[n:], f.Lease)
		n += 8
	}
	if contentTypeBytes+metadataBytes > 0 {
		flags |= flagExtra
		le.PutUint16(head[n:], uint16(contentTypeBytes))
		le.PutUint16(head[n+2:], uint16(metadataBytes))
		n += 4
	}
	le.PutUint64(head[0:], f.Mod)
	le.PutUint16(head[offOp:], uint16(f.OpIndex))
	le.PutUint16(head[offKey:], uint16(keyBytes))
	head[offFlags] = flags
	head[offCause] = uint8(f.Cause)
	return n
}

func encodedMetadataBytes(list []*messages.MetadataEntry) int {
	n := 0
	for _, m := range list {
		n += 4 + len(m.Name) + len(m.Value)
	}
	return n
}

func writeMetadata(b *strings.Builder, list []*messages.MetadataEntry) {
	for _, m := range list {
		b.WriteByte(byte(len(m.Name)))
		b.WriteByte(byte(len(m.Name) >> 8))
		b.WriteString(m.Name)
		b.WriteByte(byte(len(m.Value)))
		b.WriteByte(byte(len(m.Value) >> 8))
		b.Write(m.Value)
	}
}
