// Package field takes record values apart: it parses strict JSON, follows an
// extractor to the part it names, and encodes that part so that comparing bytes
// compares values. Secondary indexes and field compares of transactions share it,
// so a value found by one is equal for the other.
//
// # What is JSON
//
// A value is JSON when its record's content type is application/json (letter case
// and parameters do not matter) and its whole text is one RFC 8259 value: valid
// UTF-8 without lone surrogates, no duplicate names (compared after unescaping),
// no byte order mark, nothing after the value but white space. Arrays and objects
// nest at most messages.JSONDepthMax deep (a scalar has depth 0). Each number, as
// written, has at most messages.NumberDigitsMax digits before its exponent, and an
// exponent of at most messages.NumberExponentMax either way. One violation
// anywhere makes the whole value null, whatever the extractor names.
//
// # What is extracted
//
// Identity gives the whole value: of JSON, the parsed value; of any other content
// type, the raw bytes as a string. Field, path and element give one part of a JSON
// value, and null when the content type is another, the text is not strict JSON, or
// there is no such part. A part that is absent and one that is null are the same.
//
// # Order
//
// null < false < true < numbers < strings < arrays < objects. Numbers compare by
// their exact decimal value: 1, 1.0 and 1e0 are equal, 2^53 and 2^53+1 are not, -0
// is 0. Strings compare by their UTF-8 bytes, which is by code point. Arrays compare
// element by element; when one ends first it is less. Objects compare like arrays of
// (name, value) pairs sorted by name: the first pair that differs decides, by name
// first; when one ends first it is less. The order of members in the text means
// nothing.
package field

import (
	"strings"

	"github.com/concord-kv/concord/messages"
)

// Engine is the version of the rules of this package. An index records the one it
// was made with; a change of any rule is another number.
const Engine = 1

// Compare returns -1, 0 or +1 as a is less than, equal to or greater than b.
func Compare(a, b Value) int { return strings.Compare(string(a), string(b)) }

// ParseJSON returns the value of a JSON text. The error is a *messages.Error with
// CODE_INVALID_ARGUMENT and no field; it says where the text went wrong.
func ParseJSON(text []byte) (Value, error) {
	var p Parser
	return p.ParseJSON(text)
}

// Extract returns the part of a record's value that x names, Null when there is
// none. It makes a parser for each call; use a Parser where calls are many.
func Extract(x *messages.Extractor, contentType, value string) Value {
	var p Parser
	return p.Extract(x, contentType, value)
}

// ExtractEach calls fn with each value that an index keeps for the part x names: the
// part itself, or for an array its elements in their order, equal ones as often as
// they stand there. Null, elements that are null, and the empty array give none.
// After max values it stops; truncated says that there were more.
func ExtractEach(x *messages.Extractor, contentType, value string, max int, fn func(Value)) (truncated bool) {
	n := 0
	Extract(x, contentType, value).Each(func(v Value) bool {
		if n == max {
			truncated = true
			return false
		}
		n++
		fn(v)
		return true
	})
	return truncated
}
