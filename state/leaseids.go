package state

// leaseIDs finds the slot of a lease by its id. Ids come from a counter, so those of
// leases of one time stand together: a page for 64 of them costs less memory, and
// less of the processor's cache, than a map entry for each.
type leaseIDs struct {
	pages map[uint64]*leaseIDPage
	n     int
}

type leaseIDPage struct {
	slots [leaseIDPageSize]int32 // slot + 1, 0 for none
	used  int32
}

const leaseIDPageSize = 64

func newLeaseIDs() leaseIDs { return leaseIDs{pages: map[uint64]*leaseIDPage{}} }

func (t *leaseIDs) get(id uint64) (int32, bool) {
	p := t.pages[id/leaseIDPageSize]
	if p == nil {
		return 0, false
	}
	slot := p.slots[id%leaseIDPageSize] - 1
	return slot, slot >= 0
}

func (t *leaseIDs) add(id uint64, slot int32) {
	p := t.pages[id/leaseIDPageSize]
	if p == nil {
		p = &leaseIDPage{}
		t.pages[id/leaseIDPageSize] = p
	}
	p.slots[id%leaseIDPageSize] = slot + 1
	p.used++
	t.n++
}

func (t *leaseIDs) remove(id uint64) {
	p := t.pages[id/leaseIDPageSize]
	p.slots[id%leaseIDPageSize] = 0
	p.used--
	t.n--
	if p.used == 0 {
		delete(t.pages, id/leaseIDPageSize)
	}
}
