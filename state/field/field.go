// Package field takes record values apart: it parses strict JSON, follows an
// extractor to the part it names, and encodes that part so that comparing bytes
// compares values. Secondary indexes and field compares of transactions share it.
package field

import "github.com/concord-kv/concord/messages"

// Value is one JSON value in an order-preserving encoding.
type Value string

// Null is the value of everything that is absent, not JSON, or null.
const Null Value = "\x01"

func Compare(a, b Value) int                                         { panic("skeleton") }
func ParseJSON(text []byte) (Value, error)                           { panic("skeleton") }
func ValidateExtractor(x *messages.Extractor) *messages.Error        { panic("skeleton") }
func Extract(x *messages.Extractor, contentType, value string) Value { panic("skeleton") }
func ExtractEach(x *messages.Extractor, contentType, value string, max int, fn func(Value)) (truncated bool) {
	panic("skeleton")
}
