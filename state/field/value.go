package field

import "strings"

// Value is one JSON value, encoded so that comparing two encodings byte by byte
// compares the values, and so that no encoding is the prefix of another. The zero
// Value is no value at all; it is below Null.
//
//	null, false, true     one tag
//	number zero           one tag
//	number above zero     tag, exponent as 2 bytes, digit pairs + 1, 0x00
//	number below zero     tag, then the complement of the same
//	string                tag, bytes with 0x00 written as 0x00 0xFF, 0x00 0x01
//	array                 tag, elements, 0x00
//	object                tag, names as strings each followed by its value, sorted
//	                      by name, 0x00
//
// Encodings are kept in indexes of running clusters only through the records they
// came from, but all replicas must agree on them: they change with Engine alone.
type Value string

// Null is the value of everything that is absent, not JSON, or null.
const Null Value = "\x01"

// False and True are the boolean values.
const (
	False Value = "\x02"
	True  Value = "\x03"
)

const (
	tagEnd      = 0x00 // ends an array or object; below every tag
	tagNull     = 0x01
	tagFalse    = 0x02
	tagTrue     = 0x03
	tagNegative = 0x04
	tagZero     = 0x05
	tagPositive = 0x06
	tagString   = 0x07
	tagArray    = 0x08
	tagObject   = 0x09
)

const (
	stringEscape     = 0xFF // after 0x00: the byte 0x00 itself
	stringTerminator = 0x01 // after 0x00: the end of the string
)

// String returns the value of a string, which may be any bytes.
func String(s string) Value {
	return Value(appendString(make([]byte, 0, len(s)+3), s))
}

// IsArray says that v is an array.
func (v Value) IsArray() bool { return len(v) > 0 && v[0] == tagArray }

// Each calls fn with each value that an index keeps for v, until fn returns false:
// v itself, or the elements of the array v. Null gives none.
func (v Value) Each(fn func(Value) bool) {
	if !v.IsArray() {
		if v != "" && v != Null {
			fn(v)
		}
		return
	}
	for rest := v[1:]; len(rest) > 0 && rest[0] != tagEnd; {
		n := Len(string(rest))
		if n < 0 {
			return // not an encoding of ours
		}
		if e := rest[:n]; e != Null && !fn(e) {
			return
		}
		rest = rest[n:]
	}
}

// Len returns the length of the encoded value that s begins with, -1 when s begins
// with none. What follows the value is not looked at.
func Len(s string) int {
	depth := 0
	for i := 0; i < len(s); {
		end := i + 1
		switch s[i] {
		case tagEnd:
			if depth == 0 {
				return -1
			}
			depth--
		case tagNull, tagFalse, tagTrue, tagZero:
		case tagNegative:
			end = after(s, i+3, 0xFF)
		case tagPositive:
			end = after(s, i+3, 0x00)
		case tagString:
			end = stringEnd(s, i+1)
		case tagArray, tagObject:
			depth++
		default:
			return -1
		}
		if end < 0 {
			return -1
		}
		if depth == 0 {
			return end
		}
		i = end
	}
	return -1
}

// after returns the offset behind the first c at or after from, -1 if none.
func after(s string, from int, c byte) int {
	if from > len(s) {
		return -1
	}
	n := strings.IndexByte(s[from:], c)
	if n < 0 {
		return -1
	}
	return from + n + 1
}

// stringEnd returns the offset behind the terminator of the string whose bytes
// begin at from, -1 if it has none.
func stringEnd(s string, from int) int {
	for i := from; ; {
		i = after(s, i, 0)
		if i < 0 || i == len(s) {
			return -1
		}
		switch s[i] {
		case stringTerminator:
			return i + 1
		case stringEscape:
			i++
		default:
			return -1
		}
	}
}
