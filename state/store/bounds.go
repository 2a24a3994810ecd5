package store

import "github.com/concord-kv/concord/messages"

// Bounds returns the keys that a selector names as lo <= key < hi; hi "" is the end
// of the key space. A selector that names nothing, or a range that ends before it
// starts, gives bounds that hold no key.
func Bounds(sel *messages.Selector) (lo, hi string) {
	switch by := sel.GetBy().(type) {
	case *messages.Selector_Key:
		// The next key in byte order: nothing sorts between k and k + 0x00.
		return string(by.Key), string(by.Key) + "\x00"
	case *messages.Selector_Prefix:
		return string(by.Prefix), PrefixEnd(string(by.Prefix))
	case *messages.Selector_Range:
		lo, hi = string(by.Range.GetStart()), string(by.Range.GetEnd())
		if hi == "" || lo < hi {
			return lo, hi
		}
	}
	return "\x00", "\x00"
}

// PrefixEnd returns the first key after all that start with prefix, "" when there is
// none. The last byte that is not 0xFF is incremented: appending anything to the
// prefix would leave out longer keys.
func PrefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}

// Contains reports whether lo <= key < hi; hi "" is the end of the key space.
func Contains(lo, hi, key string) bool { return key >= lo && (hi == "" || key < hi) }

// within reports whether every key of [lo, hi) starts with prefix.
func within(lo, hi, prefix string) bool {
	if hi != "" && lo >= hi {
		return true
	}
	end := PrefixEnd(prefix)
	return lo >= prefix && (end == "" || hi != "" && hi <= end)
}
