// Package index is the table of all secondary indexes: copy-on-write ordered sets
// of (value, key), their definitions, and how far each back-fill has come.
//
// The entries of an index follow from the live records, its definition and its
// cursor alone, in whatever order the records were written: a table that is filled
// again from a snapshot equals the one that was saved, entry for entry.
//
// # What is indexed
//
// A record whose key has the index's prefix has one entry for the value that the
// extractor names, or for an array one for each distinct element. Null, null elements
// and the empty array have none.
//
// At most entries_per_key_max elements of one array count, in the order of the text,
// equal ones as often as they stand there and null ones never; the rest have no entry. The limit is
// fixed when the index is created: a change of the configuration must not change what a
// replay or a reload makes of old records. IndexInfo.truncated_keys counts the keys
// that lost elements this way; while it is 0 lookups are complete.
//
// A value whose encoding is longer than ValueBytesMax is kept as its first
// ValueBytesMax bytes and the SHA-256 of all of it. Lookups of an equal value stay
// exact, ranges too, because a bound may not be that long: every pair of a value and a bound
// differs in the bytes that are kept. Only the order among such values that begin
// alike is not the order of values.
package index

import (
	"slices"
	"strings"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
	"github.com/tidwall/btree"
)

// Content is what an index reads of a record. The zero Content is no record.
type Content struct {
	Present            bool
	ContentType, Value string
}

// Table holds every index. One goroutine owns it; New makes it.
type Table struct {
	indexes []*index // sorted by name
	view    *View    // of the present state; nil when it changed since

	// Scratch of Update and Step.
	parser   field.Parser
	covering []*index
	paths    []field.Path
	old      []entrySet
	new      entrySet
	value    []byte
}

// index is one index. A frozen copy of it is immutable.
type index struct {
	definition *messages.IndexDefinition
	prefix     string
	path       field.Path
	perKeyMax  int

	building bool
	cursor   string // the last key indexed while building; "" is none yet

	entries   *btree.BTreeG[string]
	sum       uint64 // of the hashes of entries
	several   int    // keys with more than one entry
	truncated int    // keys with more elements than perKeyMax

	frozen *index // copy of the present state; nil when it changed since
}

// New returns an empty table.
func New() *Table { return &Table{} }

// ValidateDefinition refuses a definition that no table can hold; the error names
// the field of IndexDefinition.
func ValidateDefinition(d *messages.IndexDefinition) *messages.Error {
	switch name := d.GetName(); {
	case name == "":
		return messages.InvalidField("name", "an index needs a name")
	case len(name) > messages.NameBytesMax:
		return messages.InvalidField("name", "a name of %d bytes", len(name)).WithLimit(messages.NameBytesMax)
	}
	if n := len(d.GetPrefix()); n > messages.KeyBytesMax {
		return messages.InvalidField("prefix", "a prefix of %d bytes", n).WithLimit(messages.KeyBytesMax)
	}
	if err := field.ValidateExtractor(d.GetExtractor()); err != nil {
		return err.WithField("extractor." + err.Detail.GetField())
	}
	return nil
}

// Create adds an index that is building, with nothing indexed yet. It keeps d, which
// must not change any more. It refuses what ValidateDefinition refuses, and with
// CODE_INDEX_EXISTS a name that is taken; how many indexes there may be is the
// caller's to check with Len.
func (t *Table) Create(d *messages.IndexDefinition, entriesPerKeyMax uint64) (*messages.IndexInfo, *messages.Error) {
	if err := ValidateDefinition(d); err != nil {
		return nil, err
	}
	if entriesPerKeyMax == 0 {
		return nil, messages.InvalidField("entries_per_key_max", "an index without entries")
	}
	at, exists := t.find(d.GetName())
	if exists {
		return nil, messages.NewError(messages.Code_CODE_INDEX_EXISTS, "index %q exists", d.GetName())
	}
	ix := &index{
		definition: d,
		prefix:     string(d.GetPrefix()),
		path:       field.Compile(d.GetExtractor()),
		perKeyMax:  int(min(entriesPerKeyMax, 1<<31-1)),
		building:   true,
		entries:    btree.NewBTreeGOptions(func(a, b string) bool { return a < b }, btree.Options{NoLocks: true}),
	}
	t.indexes = slices.Insert(t.indexes, at, ix)
	t.view = nil
	return ix.info(), nil
}

// Drop removes an index and returns what it was. The work does not depend on its
// entries: each index has a tree of its own, which is let go whole, and the garbage
// collector frees it once no view holds it.
func (t *Table) Drop(name string) (*messages.IndexInfo, *messages.Error) {
	at, exists := t.find(name)
	if !exists {
		return nil, notFound(name)
	}
	info := t.indexes[at].info()
	t.indexes = slices.Delete(t.indexes, at, at+1)
	t.view = nil
	return info, nil
}

// Len returns the number of indexes.
func (t *Table) Len() int { return len(t.indexes) }

// find returns where the index is in t.indexes, or would be.
func (t *Table) find(name string) (at int, exists bool) { return find(t.indexes, name) }

func find(indexes []*index, name string) (at int, exists bool) {
	return slices.BinarySearchFunc(indexes, name, func(ix *index, name string) int {
		return strings.Compare(ix.definition.GetName(), name)
	})
}

// changed marks ix and the table as different from their frozen copies.
func (t *Table) changed(ix *index) { ix.frozen, t.view = nil, nil }

// covers says that the entries of key are in the index now.
func (ix *index) covers(key string) bool {
	return strings.HasPrefix(key, ix.prefix) && (!ix.building || key <= ix.cursor)
}

func (ix *index) info() *messages.IndexInfo {
	return &messages.IndexInfo{
		Definition:       ix.definition,
		Building:         ix.building,
		Cursor:           []byte(ix.cursor),
		Entries:          uint64(ix.entries.Len()),
		EntriesPerKeyMax: uint64(ix.perKeyMax),
		TruncatedKeys:    uint64(ix.truncated),
		Engine:           field.Engine,
	}
}

func notFound(name string) *messages.Error {
	return messages.NewError(messages.Code_CODE_INDEX_NOT_FOUND, "no index %q", name)
}
