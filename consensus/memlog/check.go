package memlog

import "fmt"

// checker remembers what must never change.
type checker struct {
	committed map[uint64]*record
	leaders   map[uint64]uint64 // by term
	checked   map[uint64]uint64 // by replica, up to which index
}

func newChecker() checker {
	return checker{committed: map[uint64]*record{}, leaders: map[uint64]uint64{}, checked: map[uint64]uint64{}}
}

func (k *checker) led(term, id uint64) {
	if other, known := k.leaders[term]; known && other != id {
		panic(fmt.Sprintf("memlog: replicas %d and %d both lead in term %d", other, id, term))
	}
	k.leaders[term] = id
}

// Check panics if two replicas have committed different entries at one index. It
// tests this package, not what stands on it.
func (c *Cluster) Check() {
	for _, id := range c.ids {
		n := c.nodes[id]
		if !n.up {
			c.check.checked[id] = 0
			continue
		}
		for i := max(c.check.checked[id], n.mem.base) + 1; i <= n.mem.commit; i++ {
			rec := n.mem.at(i)
			if other, known := c.check.committed[i]; known && other != rec {
				panic(fmt.Sprintf("memlog: replica %d has another entry at index %d", id, i))
			}
			c.check.committed[i] = rec
		}
		c.check.checked[id] = n.mem.commit
	}
}
