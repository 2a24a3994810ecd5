// Package index is the table of all secondary indexes: copy-on-write ordered sets
// of (value, key), their definitions, and how far each back-fill has come.
package index

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
)

// Content is what an index reads of a record. The zero Content is no record.
type Content struct {
	Present            bool
	ContentType, Value string
}

// Ascend visits live records with lo <= key < hi in key order until fn returns
// false; hi "" is the end of the key space.
type Ascend func(lo, hi string, fn func(key string, c Content) bool)

// Table holds every index. One goroutine owns it; the zero value does not work.
type Table struct{}

func New() *Table { panic("skeleton") }

// ValidateDefinition refuses a definition that no table can hold; the error names the field.
func ValidateDefinition(d *messages.IndexDefinition) *messages.Error { panic("skeleton") }

// Create adds an index that is building, with nothing indexed yet.
func (t *Table) Create(d *messages.IndexDefinition, entriesPerKeyMax uint64) (*messages.IndexInfo, *messages.Error) {
	panic("skeleton")
}

// Drop removes an index. O(number of indexes), whatever its entries.
func (t *Table) Drop(name string) (*messages.IndexInfo, *messages.Error) { panic("skeleton") }

// Restore adds an index as a snapshot describes it, without entries: follow with
// Update(key, Content{}, c) for every live record.
func (t *Table) Restore(info *messages.IndexInfo) error { panic("skeleton") }

// Update maintains every index that covers key.
func (t *Table) Update(key string, old, new Content) { panic("skeleton") }

// Step advances a back-fill. A cursor other than expected makes it a no-op. done: it is ready now.
func (t *Table) Step(name string, expectedCursor []byte, keys int, ascend Ascend) (done bool) {
	panic("skeleton")
}

// Steps lists the next step of every index that is building, by name.
func (t *Table) Steps() []*messages.StepIndex { panic("skeleton") }

func (t *Table) Len() int           { panic("skeleton") }
func (t *Table) Digest() uint64     { panic("skeleton") }
func (t *Table) FullDigest() uint64 { panic("skeleton") }
func (t *Table) View() *View        { panic("skeleton") }

// View is a frozen Table, safe for many goroutines.
type View struct{}

func (v *View) List() []*messages.IndexInfo                             { panic("skeleton") }
func (v *View) Info(name string) (*messages.IndexInfo, *messages.Error) { panic("skeleton") }

// Query is one lookup: Equal, or the half-open range [Min, Max) where "" is open.
type Query struct {
	Equal, Min, Max field.Value
	After           []byte // cursor of the last page
}

// Lookup visits each key that has a matching value once, in (value, key) order,
// until fn returns false or the matches end. get returns the record of a key in
// the same view. The cursor of the last key visited continues after it.
func (v *View) Lookup(name string, q Query, get func(key string) Content, fn func(key string, cursor func() []byte) bool) *messages.Error {
	panic("skeleton")
}
