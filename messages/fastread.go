package messages

import (
	"encoding/binary"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// This file and its neighbours fastclient.go and fastcommand.go decode the messages of
// the hot paths by hand: frames, entries, proposals between nodes and their answers,
// of puts, gets and leases. What they mean is what proto.Unmarshal means; whatever they do not
// know (another operation, an unknown field, a field twice, a bad encoding) is left to
// it, message by message. Decoding by reflection was an eighth of the processor time of
// a cluster under puts, most of it for many small objects; here the messages of a batch
// share a few slabs and bytes are not copied where the text says so.

// wire walks the fields of an encoded message.
type wire struct {
	rest []byte
	tag  uint64 // number<<3 | type, of the field that next found
	v    uint64 // of a varint
	data []byte // of a length-delimited field
	bad  bool   // not what this file decodes
}

// Types of fields; a tag is compared as number<<3 | type.
const (
	varintField = 0
	bytesField  = 2
)

// next moves to the next field; false at the end, or with bad set.
func (w *wire) next() bool {
	if len(w.rest) == 0 {
		return false
	}
	tag, n := uvarint(w.rest)
	if n <= 0 {
		w.bad = true
		return false
	}
	w.tag = tag
	v, m := uvarint(w.rest[n:])
	if m <= 0 {
		w.bad = true
		return false
	}
	n += m
	switch tag & 7 {
	case varintField:
		w.v, w.rest = v, w.rest[n:]
		return true
	case bytesField:
		if v <= uint64(len(w.rest)-n) {
			end := n + int(v)
			w.data, w.rest = w.rest[n:end:end], w.rest[end:]
			return true
		}
	}
	w.bad = true
	return false
}

func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

// text sets a string field. Protobuf refuses text that is not UTF-8.
func (w *wire) text(to *string) bool {
	*to = string(w.data)
	return utf8.Valid(w.data)
}

// count returns how often a tag occurs at the top level of an encoded message.
func count(b []byte, tag uint64) int {
	n := 0
	for w := (wire{rest: b}); w.next(); {
		if w.tag == tag {
			n++
		}
	}
	return n
}

// nested decodes a message within another: by hand, or else by reflection.
func nested(fast bool, b []byte, m proto.Message) bool {
	return fast || proto.Unmarshal(b, m) == nil
}

// slab hands out the elements of one allocation, made when the first is needed.
type slab[T any] struct {
	free []T
	left int // how many may still be asked for
}

func (s *slab[T]) take() *T {
	if len(s.free) == 0 {
		s.free = make([]T, max(s.left, 1))
	}
	t := &s.free[0]
	s.free = s.free[1:]
	s.left--
	return t
}

// read decodes a put; key and value share b's memory.
func (x *Put) read(b []byte) bool {
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | bytesField:
			x.Key = w.data
		case 2<<3 | bytesField:
			x.Value = w.data
		case 3<<3 | varintField:
			x.LeaseId = w.v
		case 4<<3 | varintField:
			x.TtlMs = int64(w.v)
		case 5<<3 | bytesField:
			if !w.text(&x.ContentType) {
				return false
			}
		case 7<<3 | varintField:
			x.PrevKv = w.v != 0
		case 8<<3 | varintField:
			x.IgnoreValue = w.v != 0
		case 9<<3 | varintField:
			x.IgnoreLease = w.v != 0
		case 10<<3 | varintField:
			x.MoveLease = w.v != 0
		default:
			return false
		}
	}
	return !w.bad
}

// read decodes a record. Key and value are copies: an application may keep one of
// them for long, and must not keep the message that it came in.
func (x *Record) read(b []byte) bool { return x.readTo(b, &copier{}, len(b)) }

// readTo is read with copies in the pieces of a list, of which left bytes are to come.
func (x *Record) readTo(b []byte, own *copier, left int) bool {
	if len(b) > listBytes {
		own, left = &copier{}, 0 // it shares nothing
	}
	w := wire{rest: b}
	for w.next() {
		switch w.tag {
		case 1<<3 | bytesField:
			x.Key = own.copy(w.data, left)
		case 2<<3 | bytesField:
			x.Value = own.copy(w.data, left)
		case 3<<3 | varintField:
			x.CreateRevision = w.v
		case 4<<3 | varintField:
			x.ModRevision = w.v
		case 5<<3 | varintField:
			x.Version = w.v
		case 6<<3 | varintField:
			x.LeaseId = w.v
		case 7<<3 | bytesField:
			if !w.text(&x.ContentType) {
				return false
			}
		default:
			return false
		}
	}
	return !w.bad
}
