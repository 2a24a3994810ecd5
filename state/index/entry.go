package index

import (
	"crypto/sha256"
	"slices"
	"unsafe"

	"github.com/concord-kv/concord/state/field"
)

// ValueBytesMax is the longest encoding of a value that an entry holds whole, and
// the longest bound of a range.
const ValueBytesMax = 512

const longValueBytes = ValueBytesMax + sha256.Size

// An entry is the kept form of a value followed by the key. Encodings of values are
// no prefixes of each other, and neither are kept forms, so entries sort by value,
// then key, and the end of the value is found again by reading it.

// appendKept appends the kept form of a value.
func appendKept(dst []byte, v field.Value) []byte {
	if len(v) <= ValueBytesMax {
		return append(dst, v...)
	}
	dst = append(dst, v[:ValueBytesMax]...)
	sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(string(v)), len(v)))
	return append(dst, sum[:]...)
}

// splitEntry returns the kept form and the key of an entry; ok is false for bytes
// that are none.
func splitEntry(entry string) (kept, key string, ok bool) {
	n := field.Len(entry[:min(len(entry), ValueBytesMax)])
	if n < 0 {
		n = longValueBytes
	}
	if n >= len(entry) {
		return "", "", false
	}
	return entry[:n], entry[n:], true
}

// entrySet is the sorted entries of one record in one index. Its strings point into
// its arena: they live until it is filled again.
type entrySet struct {
	list      []string
	truncated bool

	arena []byte
	ends  []int
}

// scratchKept bounds the memory that a set keeps for the next record.
const scratchKept = 1 << 20

func (s *entrySet) reset() {
	if cap(s.arena) > scratchKept {
		*s = entrySet{}
	}
	s.list, s.arena, s.ends, s.truncated = s.list[:0], s.arena[:0], s.ends[:0], false
}

// fill makes the entries that a record with this extracted value has.
func (s *entrySet) fill(v field.Value, key string, perKeyMax int) {
	s.reset()
	v.Each(func(e field.Value) bool {
		if len(s.ends) == perKeyMax {
			s.truncated = true
			return false
		}
		s.arena = appendKept(s.arena, e)
		s.arena = append(s.arena, key...)
		s.ends = append(s.ends, len(s.arena))
		return true
	})
	from := 0
	for _, end := range s.ends {
		s.list = append(s.list, unsafe.String(&s.arena[from], end-from))
		from = end
	}
	if len(s.list) > 1 {
		slices.Sort(s.list)
		s.list = slices.Compact(s.list)
	}
}
