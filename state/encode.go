package state

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
)

// QueryEncoded is QueryAs for an answer that is to be encoded, and for nothing else: the
// records of a get or a list are in it as the wire has them, among the unknown fields of
// the answer. Where they lie they are read once, and no messages are made of them. Who
// decodes what is made of it gets what QueryAs answers.
func (v *View) QueryEncoded(rights *auth.Rights, q *messages.Query, now Now) (*messages.QueryReply, *messages.Error) {
	if err := v.permit(rights, q); err != nil {
		return nil, err
	}
	return v.answer(q, &shower{view: v, now: now, rights: rights, encodes: true})
}

// Fields of messages.Record, and that of records in the answers to gets and lists.
const (
	recordsField = 1

	keyField            = 1
	valueField          = 2
	createRevisionField = 3
	modRevisionField    = 4
	versionField        = 5
	leaseField          = 6
	contentTypeField    = 7
	metadataField       = 8
	remainingField      = 9
	expiresField        = 10
)

// encodedRoom is more than what a record's encoding adds to its bytes, metadata apart.
const encodedRoom = 96

// encode appends records to b, which grows once at most unless they have metadata. It
// reads them a group ahead, as records does.
func (s *shower) encode(b []byte, list []Shown, keysOnly bool) []byte {
	room := 0
	for _, r := range list {
		if room += encodedRoom; !keysOnly {
			room += r.Len()
		}
	}
	if cap(b)-len(b) < room {
		b = append(make([]byte, 0, len(b)+room), b...)
	}
	for len(list) > 0 {
		group := list[:min(len(list), shownChunk)]
		list = list[len(group):]
		s.readAhead(group, keysOnly)
		for _, r := range group {
			b = appendRecord(b, r, keysOnly)
		}
	}
	return b
}

// appendRecord appends one record as a field of an answer.
func appendRecord(b []byte, r Shown, keysOnly bool) []byte {
	value := r.Value()
	if keysOnly {
		value = ""
	}
	key, contentType := r.Key(), r.ContentType()
	n := sizeString(key) + sizeString(value) + sizeString(contentType) +
		sizeNumber(r.Create()) + sizeNumber(r.Mod()) + sizeNumber(r.Version()) + sizeNumber(r.Lease())
	r.EachMetadata(func(name, value string) bool {
		n += 1 + protowire.SizeBytes(sizeString(name)+sizeString(value))
		return true
	})
	if r.HasTTL {
		n += 1 + protowire.SizeVarint(uint64(r.RemainingTTLMs))
		if r.ExpiresAtUnixMs != 0 {
			n += 1 + protowire.SizeVarint(uint64(r.ExpiresAtUnixMs))
		}
	}
	b = protowire.AppendTag(b, recordsField, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(n))
	b = appendText(b, keyField, key)
	b = appendText(b, valueField, value)
	b = appendNumber(b, createRevisionField, r.Create())
	b = appendNumber(b, modRevisionField, r.Mod())
	b = appendNumber(b, versionField, r.Version())
	b = appendNumber(b, leaseField, r.Lease())
	b = appendText(b, contentTypeField, contentType)
	r.EachMetadata(func(name, value string) bool {
		b = protowire.AppendTag(b, metadataField, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(sizeString(name)+sizeString(value)))
		b = appendText(b, 1, name)
		b = appendText(b, 2, value)
		return true
	})
	if r.HasTTL { // also when nothing is left of it
		b = protowire.AppendTag(b, remainingField, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(r.RemainingTTLMs))
		if r.ExpiresAtUnixMs != 0 {
			b = appendNumber(b, expiresField, uint64(r.ExpiresAtUnixMs))
		}
	}
	return b
}

// Fields below 16, whose tags are of one byte, left out when they are empty.

func sizeString(s string) int {
	if s == "" {
		return 0
	}
	return 1 + protowire.SizeBytes(len(s))
}

func sizeNumber(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}
