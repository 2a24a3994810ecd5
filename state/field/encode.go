package field

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// encoder encodes text that has been checked already: it trusts its grammar, its
// depth and its numbers.
type encoder struct {
	members []member // of the objects that are open
	sorted  []byte   // scratch to put members in order
	unquote []byte   // scratch for strings with escapes
}

// member is one encoded (name, value) in the output.
type member struct{ from, to int }

// append encodes the value that s begins with after white space at i, and returns
// the offset behind it.
func (e *encoder) append(dst []byte, s string, i int) ([]byte, int) {
	i = skipSpace(s, i)
	switch s[i] {
	case 'n':
		return append(dst, tagNull), i + len("null")
	case 'f':
		return append(dst, tagFalse), i + len("false")
	case 't':
		return append(dst, tagTrue), i + len("true")
	case '"':
		return e.appendQuoted(dst, s, i)
	case '[':
		return e.appendArray(dst, s, i)
	case '{':
		return e.appendObject(dst, s, i)
	}
	end := i + 1
	for end < len(s) && isNumberByte(s[end]) {
		end++
	}
	return appendNumber(dst, s[i:end]), end
}

func (e *encoder) appendArray(dst []byte, s string, i int) ([]byte, int) {
	dst = append(dst, tagArray)
	for i = skipSpace(s, i+1); s[i] != ']'; {
		dst, i = e.append(dst, s, i)
		if i = skipSpace(s, i); s[i] == ',' {
			i++
		}
	}
	return append(dst, tagEnd), i + 1
}

func (e *encoder) appendObject(dst []byte, s string, i int) ([]byte, int) {
	dst = append(dst, tagObject)
	base := len(e.members)
	for i = skipSpace(s, i+1); s[i] != '}'; {
		from := len(dst)
		dst, i = e.appendQuoted(dst, s, i)
		i = skipSpace(s, i) + 1 // the colon
		dst, i = e.append(dst, s, i)
		e.members = append(e.members, member{from, len(dst)})
		i = skipSpace(s, i)
		if s[i] == ',' {
			i = skipSpace(s, i+1)
		}
	}
	e.sort(dst, e.members[base:])
	e.members = e.members[:base]
	return append(dst, tagEnd), i + 1
}

// sort puts the members, which stand one after another at the end of dst, in the
// order of their names. Names are unique and self-delimiting, so comparing whole
// members compares names.
func (e *encoder) sort(dst []byte, members []member) {
	byName := func(a, b member) int { return bytes.Compare(dst[a.from:a.to], dst[b.from:b.to]) }
	if slices.IsSortedFunc(members, byName) {
		return
	}
	start := members[0].from
	slices.SortFunc(members, byName)
	e.sorted = e.sorted[:0]
	for _, m := range members {
		e.sorted = append(e.sorted, dst[m.from:m.to]...)
	}
	copy(dst[start:], e.sorted)
}

// appendQuoted encodes the JSON string at s[i], a quote.
func (e *encoder) appendQuoted(dst []byte, s string, i int) ([]byte, int) {
	end := i + 1
	escaped := false
	for ; s[end] != '"'; end++ {
		if s[end] == '\\' {
			escaped = true
			end++
		}
	}
	end++
	if !escaped {
		// Control characters must be escaped: there is no 0x00 in it.
		dst = append(dst, tagString)
		dst = append(dst, s[i+1:end-1]...)
		return append(dst, 0x00, stringTerminator), end
	}
	e.unquote, _ = jsontext.AppendUnquote(e.unquote[:0], s[i:end])
	return appendString(dst, e.unquote), end
}

// appendString encodes the bytes of s as a string.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, tagString)
	from := 0
	for i := 0; i < len(s); i++ {
		if s[i] == 0 {
			dst = append(dst, s[from:i]...)
			dst = append(dst, 0x00, stringEscape)
			from = i + 1
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, 0x00, stringTerminator)
}

func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t') {
		i++
	}
	return i
}

func isNumberByte(c byte) bool {
	return isDigit(c) || strings.IndexByte("+-.eE", c) >= 0
}
