package client

import (
	"maps"
	"slices"
	"time"

	"github.com/concord-kv/concord/messages"
)

// KeySelector, PrefixSelector and RangeSelector name keys for List, Delete, Changes and
// Watch.

// KeySelector names one key.
func KeySelector(key string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Key{Key: []byte(key)}}
}

// PrefixSelector names every key with this prefix; the empty prefix, every key.
func PrefixSelector(prefix string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(prefix)}}
}

// RangeSelector names the keys with start <= key < end; an empty end is the end of the
// key space.
func RangeSelector(start, end string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte(start), End: []byte(end)}}}
}

// metadataEntries sorts a map into the form that travels.
func metadataEntries(m map[string][]byte) []*messages.MetadataEntry {
	if len(m) == 0 {
		return nil
	}
	entries := make([]*messages.MetadataEntry, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		entries = append(entries, &messages.MetadataEntry{Name: name, Value: m[name]})
	}
	return entries
}

// Metadata turns the pairs of a record or a lease into a map.
func Metadata(entries []*messages.MetadataEntry) map[string][]byte {
	m := make(map[string][]byte, len(entries))
	for _, e := range entries {
		m[e.GetName()] = e.GetValue()
	}
	return m
}

func consistency(stale bool) messages.Consistency {
	if stale {
		return messages.Consistency_CONSISTENCY_STALE
	}
	return messages.Consistency_CONSISTENCY_LINEARIZABLE
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
