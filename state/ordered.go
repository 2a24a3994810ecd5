package state

import "github.com/tidwall/btree"

// ordered is a small table in key order whose frozen copy costs O(1), and nothing
// at all while the table has not changed since the last one.
type ordered[T any] struct {
	tree   *btree.BTreeG[T]
	frozen *btree.BTreeG[T]
}

func newOrdered[T any](less func(a, b T) bool) ordered[T] {
	return ordered[T]{tree: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

func (o *ordered[T]) get(key T) (T, bool) { return o.tree.Get(key) }

func (o *ordered[T]) set(row T) {
	o.frozen = nil
	o.tree.Set(row)
}

func (o *ordered[T]) remove(key T) {
	o.frozen = nil
	o.tree.Delete(key)
}

func (o *ordered[T]) len() int { return o.tree.Len() }

// scan visits every row in order until fn returns false. fn must not change the
// table.
func (o *ordered[T]) scan(fn func(T) bool) { o.tree.Scan(fn) }

// freeze returns the table as it is now. The copy never changes and may be read by
// many goroutines.
func (o *ordered[T]) freeze() *btree.BTreeG[T] {
	if o.frozen == nil {
		o.frozen = o.tree.Copy()
	}
	return o.frozen
}
