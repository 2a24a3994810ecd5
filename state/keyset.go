package state

import (
	"slices"

	"github.com/tidwall/btree"
)

// keySet is the keys of one lease, in order. Most leases hold a few: they stand in
// a slice. Its strings are its own: a key cut out of a record would keep the whole
// record alive.
type keySet struct {
	few  []string
	many *btree.Set[string]
}

// keysFewMax is where a key set becomes a tree.
const keysFewMax = 32

func (s *keySet) len() int {
	if s.many != nil {
		return s.many.Len()
	}
	return len(s.few)
}

func (s *keySet) has(key string) bool {
	if s.many != nil {
		return s.many.Contains(key)
	}
	_, found := slices.BinarySearch(s.few, key)
	return found
}

func (s *keySet) add(key string) {
	if s.many == nil && len(s.few) == keysFewMax {
		s.many = &btree.Set[string]{}
		for _, k := range s.few {
			s.many.Insert(k)
		}
		s.few = nil
	}
	if s.many != nil {
		s.many.Insert(key)
		return
	}
	i, found := slices.BinarySearch(s.few, key)
	if !found {
		s.few = slices.Insert(s.few, i, key)
	}
}

func (s *keySet) remove(key string) {
	if s.many != nil {
		s.many.Delete(key)
		return
	}
	if i, found := slices.BinarySearch(s.few, key); found {
		s.few = slices.Delete(s.few, i, i+1)
	}
}

// scan visits the keys in order until fn returns false.
func (s *keySet) scan(fn func(key string) bool) {
	if s.many != nil {
		s.many.Scan(fn)
		return
	}
	for _, k := range s.few {
		if !fn(k) {
			return
		}
	}
}

// fork returns a set of the same keys; changes of it do not show in s. s must not
// be changed any more.
func (s *keySet) fork() keySet {
	if s.many != nil {
		return keySet{many: s.many.Copy()}
	}
	return keySet{few: slices.Clone(s.few)}
}
