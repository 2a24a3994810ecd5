package state

// leasePages is an array of lease rows in two levels of pages. A page belongs to
// the generation that copied it; own copies what is older, so that whoever holds
// the root of an earlier generation goes on seeing what it saw.
type leasePages struct {
	gen  uint64
	root []*leaseBlock
}

// Small pages: after a view each keep-alive copies one page and perhaps its block.
const (
	leasePageRows   = 16
	leaseBlockPages = 64
)

type leasePage struct {
	gen  uint64
	rows [leasePageRows]leaseRow
}

type leaseBlock struct {
	gen   uint64
	pages [leaseBlockPages]*leasePage
}

// at returns the row of a slot for reading.
func (p *leasePages) at(slot int32) *leaseRow {
	s := uint32(slot)
	return &p.root[s/(leasePageRows*leaseBlockPages)].pages[s/leasePageRows%leaseBlockPages].rows[s%leasePageRows]
}

// page returns the page of a slot.
func (p *leasePages) page(slot int32) *leasePage {
	s := uint32(slot)
	return p.root[s/(leasePageRows*leaseBlockPages)].pages[s/leasePageRows%leaseBlockPages]
}

// own returns the row of a slot for changing it in generation gen. The pointer is
// good until the next call for another generation.
func (p *leasePages) own(slot int32, gen uint64) *leaseRow {
	s := uint32(slot)
	b, g, r := int(s/(leasePageRows*leaseBlockPages)), s/leasePageRows%leaseBlockPages, s%leasePageRows
	if p.gen != gen {
		root := make([]*leaseBlock, len(p.root), cap(p.root)+1)
		copy(root, p.root)
		p.root, p.gen = root, gen
	}
	for b >= len(p.root) {
		p.root = append(p.root, &leaseBlock{gen: gen})
	}
	block := p.root[b]
	if block.gen != gen {
		c := *block
		c.gen = gen
		block, p.root[b] = &c, &c
	}
	page := block.pages[g]
	switch {
	case page == nil:
		page = &leasePage{gen: gen}
		block.pages[g] = page
	case page.gen != gen:
		c := *page
		c.gen = gen
		page, block.pages[g] = &c, &c
	}
	return &page.rows[r]
}
