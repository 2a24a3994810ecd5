package store

import (
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestBounds: one line a rule.
func TestBounds(t *testing.T) {
	keyRange := func(start, end string) *messages.Selector {
		return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte(start), End: []byte(end)}}}
	}
	for _, c := range []struct {
		name   string
		sel    *messages.Selector
		lo, hi string
	}{
		{"a key is itself alone", &messages.Selector{By: &messages.Selector_Key{Key: []byte("k")}}, "k", "k\x00"},
		{"a prefix ends at its last byte plus one", prefixSelector("ab"), "ab", "ac"},
		{"0xFF is passed over", prefixSelector("a\xff\xff"), "a\xff\xff", "b"},
		{"nothing follows a prefix of 0xFF", prefixSelector("\xff\xff"), "\xff\xff", ""},
		{"the empty prefix is everything", prefixSelector(""), "", ""},
		{"a range is half open", keyRange("a", "b"), "a", "b"},
		{"a range may be open at the end", keyRange("a", ""), "a", ""},
		{"a range that ends before it starts is empty", keyRange("b", "a"), "\x00", "\x00"},
		{"a range of equal ends is empty", keyRange("a", "a"), "\x00", "\x00"},
		{"no selector is empty", nil, "\x00", "\x00"},
		{"a selector of nothing is empty", &messages.Selector{}, "\x00", "\x00"},
	} {
		if lo, hi := Bounds(c.sel); lo != c.lo || hi != c.hi {
			t.Errorf("%s: [%q, %q), want [%q, %q)", c.name, lo, hi, c.lo, c.hi)
		}
	}
}

// FuzzBounds checks prefix and range selectors against the words that define them.
func FuzzBounds(f *testing.F) {
	for _, s := range [][3]string{{"a", "a\xff", "b"}, {"\xff", "\xff\xff", ""}, {"", "", "x"}, {"a\xff", "b", "a\xff\x00"}} {
		f.Add([]byte(s[0]), []byte(s[1]), []byte(s[2]))
	}
	f.Fuzz(func(t *testing.T, start, end, key []byte) {
		k := string(key)
		if lo, hi := Bounds(prefixSelector(string(start))); Contains(lo, hi, k) != strings.HasPrefix(k, string(start)) {
			t.Errorf("prefix %q: %q in [%q, %q)", start, k, lo, hi)
		}
		lo, hi := Bounds(&messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: start, End: end}}})
		if want := k >= string(start) && (len(end) == 0 || k < string(end)); Contains(lo, hi, k) != want {
			t.Errorf("range [%q, %q): %q in [%q, %q)", start, end, k, lo, hi)
		}
		if lo, hi := Bounds(&messages.Selector{By: &messages.Selector_Key{Key: start}}); Contains(lo, hi, k) != (k == string(start)) {
			t.Errorf("key %q: %q in [%q, %q)", start, k, lo, hi)
		}
		if p := k[:len(k)/2]; within(lo, hi, p) && Contains(lo, hi, k+"x") && !strings.HasPrefix(k+"x", p) {
			t.Errorf("[%q, %q) lies in prefix %q but holds %q", lo, hi, p, k+"x")
		}
	})
}
