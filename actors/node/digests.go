package node

import "sync"

// digests remembers what the state's digest was at agreed places of the log, so that
// replicas can be compared without stopping any of them.
type digests struct {
	mu   sync.Mutex
	ring [digestsKept]digestAt
	next int
}

type digestAt struct{ index, digest uint64 }

// digestsKept is how many places are remembered: a replica that is further behind than
// this is compared later.
const digestsKept = 256

func (d *digests) add(index, digest uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ring[d.next%digestsKept] = digestAt{index, digest}
	d.next++
}

// last returns the latest; zero for none.
func (d *digests) last() digestAt {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == 0 {
		return digestAt{}
	}
	return d.ring[(d.next-1)%digestsKept]
}

// at returns the digest at an index, if it is remembered.
func (d *digests) at(index uint64) (digest uint64, ok bool) {
	if index == 0 {
		return 0, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.ring {
		if x.index == index {
			return x.digest, true
		}
	}
	return 0, false
}
