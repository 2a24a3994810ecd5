package mirror

import (
	"github.com/tidwall/btree"

	"github.com/concord-kv/concord/messages"
)

// View is the selector's state at one revision. It does not change and may be read by
// many goroutines. The records in it are shared: read only.
type View struct {
	tree     *btree.BTreeG[*messages.Record]
	revision uint64
}

func newTree() *btree.BTreeG[*messages.Record] {
	return btree.NewBTreeGOptions(func(a, b *messages.Record) bool { return string(a.Key) < string(b.Key) },
		btree.Options{NoLocks: true})
}

// Revision that the view shows. Every event of the selector up to it is in the view, and
// none after it.
func (v View) Revision() uint64 { return v.revision }

// Len returns the number of keys.
func (v View) Len() int {
	if v.tree == nil {
		return 0
	}
	return v.tree.Len()
}

// Get returns the record of a key; false when there is none.
func (v View) Get(key string) (*messages.Record, bool) {
	if v.tree == nil {
		return nil, false
	}
	return v.tree.Get(&messages.Record{Key: []byte(key)})
}

// Ascend calls fn for each record from the key start on, in key order, until fn returns
// false.
func (v View) Ascend(start string, fn func(*messages.Record) bool) {
	if v.tree != nil {
		v.tree.Ascend(&messages.Record{Key: []byte(start)}, fn)
	}
}

// Records goes through all records in key order.
func (v View) Records(yield func(*messages.Record) bool) {
	if v.tree != nil {
		v.tree.Scan(yield)
	}
}
