package messages

import "google.golang.org/protobuf/encoding/protowire"

// This file: writing a message from its end to its beginning. Before a nested message
// stands its size, so whoever writes forwards must size each message once for each level
// that it is nested in, five times for a put in a frame; backwards it is known by then.
// Each function writes what ends at b[at] and returns where that begins. There is room.

// fast is a message that this package sizes and encodes by hand.
type fast interface {
	// fastSize is the encoded size; slow if it must be left to protobuf.
	fastSize() int
	// fastWrite writes a message of which fastSize is not slow.
	fastWrite(b []byte, at int) int
}

func writeUvarint(b []byte, at int, v uint64) int {
	if v < 0x80 {
		at--
		b[at] = byte(v)
		return at
	}
	at -= protowire.SizeVarint(v)
	i := at
	for ; v >= 0x80; i++ {
		b[i] = byte(v) | 0x80
		v >>= 7
	}
	b[i] = byte(v)
	return at
}

func writeVarint(b []byte, at int, tag uint64, v uint64) int {
	if v == 0 {
		return at
	}
	return writeUvarint(b, writeUvarint(b, at, v), tag<<3|varintField)
}

func writeBool(b []byte, at int, tag uint64, v bool) int {
	if !v {
		return at
	}
	return writeVarint(b, at, tag, 1)
}

func writeBytes[T []byte | string](b []byte, at int, tag uint64, v T) int {
	if len(v) == 0 {
		return at
	}
	end := at
	at -= len(v)
	copy(b[at:end], v)
	return writeHead(b, at, end, tag)
}

// writeHead begins the field whose content is b[at:end].
func writeHead(b []byte, at, end int, tag uint64) int {
	return writeUvarint(b, writeUvarint(b, at, uint64(end-at)), tag<<3|bytesField)
}

// writeUnknown writes fields that are encoded already.
func writeUnknown(b []byte, at int, fields []byte) int {
	return at - copy(b[at-len(fields):at], fields)
}

func writeNested(b []byte, at int, tag uint64, m fast) int {
	return writeHead(b, m.fastWrite(b, at), at, tag)
}

func writeList[M fast](b []byte, at int, tag uint64, list []M) int {
	for i := len(list) - 1; i >= 0; i-- {
		at = writeHead(b, list[i].fastWrite(b, at), at, tag)
	}
	return at
}
