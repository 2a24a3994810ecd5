package state

import (
	"fmt"
	"math"
	"strings"

	"github.com/tidwall/btree"

	"github.com/concord-kv/concord/messages"
)

// leaseTable holds every lease: rows in small pages that are copied when a view may
// still read them, so that a view costs O(1) and a keep-alive after it one page.
// Beside the rows stand, for the writer alone, the queue of deadlines and the slots
// by id.
type leaseTable struct {
	rows   leasePages
	gen    uint64 // of what no view has seen yet
	shared bool   // a view was taken in this generation
	free   []int32
	slots  int32 // ever used
	byID   leaseIDs
	byTime deadlines
	order  ordered[leaseSlot]
	alias  ordered[leaseAlias]
	digest uint64
	owned  map[uint64]uint64 // leases of each user; looked up only
}

// leaseRow is what a keep-alive needs, and the rest behind a pointer.
type leaseRow struct {
	id         uint64 // 0 marks a free row
	deadlineMs int64
	ttlMs      int64
	renewals   uint64
	fixed      uint64 // hash of what never changes
	body       *leaseBody
	anonymous  bool
}

type leaseBody struct {
	gen       uint64 // as in leaseTable: an older body is copied before a change
	grantedAt uint64
	alias     uint64
	sessionID uint64
	owner     uint64 // the user who granted it, 0 for nobody
	metadata  []*messages.MetadataEntry
	keys      keySet
	// dependents counts the cursors and reports that end with the lease.
	dependents uint32
}

type leaseSlot struct {
	id   uint64
	slot int32
}

type leaseAlias struct{ alias, id uint64 }

func newLeaseTable() leaseTable {
	return leaseTable{
		gen:   1,
		byID:  newLeaseIDs(),
		owned: map[uint64]uint64{},
		order: newOrdered(func(a, b leaseSlot) bool { return a.id < b.id }),
		alias: newOrdered(func(a, b leaseAlias) bool {
			return a.alias < b.alias || a.alias == b.alias && a.id < b.id
		}),
	}
}

func (t *leaseTable) len() int { return t.byID.n }

// find returns the slot of a lease.
func (t *leaseTable) find(id uint64) (int32, bool) {
	return t.byID.get(id)
}

// at returns a row for reading only.
func (t *leaseTable) at(slot int32) *leaseRow { return t.rows.at(slot) }

// add puts a new lease into the table. Its body belongs to the table from then on.
func (t *leaseTable) add(row leaseRow) int32 {
	slot := t.slots
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.slots++
	}
	t.touched()
	*t.rows.own(slot, t.gen) = row
	t.byID.add(row.id, slot)
	t.byTime.add(deadline{ms: row.deadlineMs, id: row.id, slot: slot})
	t.order.set(leaseSlot{id: row.id, slot: slot})
	if a := row.body.alias; a != 0 {
		t.alias.set(leaseAlias{alias: a, id: row.id})
	}
	if o := row.body.owner; o != 0 {
		t.owned[o]++
	}
	t.digest += hashLease(&row)
	return slot
}

// remove takes a lease out of the table and returns its last row.
func (t *leaseTable) remove(slot int32) leaseRow {
	t.touched()
	p := t.rows.own(slot, t.gen)
	row := *p
	if row.id == 0 {
		panic(fmt.Sprintf("leases: slot %d is free", slot))
	}
	*p = leaseRow{}
	t.digest -= hashLease(&row)
	t.free = append(t.free, slot)
	t.byTime.remove(slot)
	t.byID.remove(row.id)
	t.order.remove(leaseSlot{id: row.id})
	if a := row.body.alias; a != 0 {
		t.alias.remove(leaseAlias{alias: a, id: row.id})
	}
	if o := row.body.owner; o != 0 {
		if t.owned[o]--; t.owned[o] == 0 {
			delete(t.owned, o)
		}
	}
	return row
}

// renew gives a lease another deadline, ttl and count of renewals.
func (t *leaseTable) renew(slot int32, deadlineMs, ttlMs int64, renewals uint64) {
	t.touched()
	row := t.rows.own(slot, t.gen)
	t.digest -= hashLease(row)
	if row.deadlineMs != deadlineMs {
		t.byTime.move(slot, deadlineMs)
	}
	row.deadlineMs, row.ttlMs, row.renewals = deadlineMs, ttlMs, renewals
	t.digest += hashLease(row)
}

// attach adds a key to a lease. It copies the key.
func (t *leaseTable) attach(slot int32, key string) {
	t.ownBody(slot).keys.add(strings.Clone(key))
}

// detach removes a key from a lease.
func (t *leaseTable) detach(slot int32, key string) {
	t.ownBody(slot).keys.remove(key)
}

// depend counts a cursor or a report that ends with the lease, or one that is gone.
func (t *leaseTable) depend(id uint64, by int) {
	if slot, ok := t.find(id); ok {
		t.ownBody(slot).dependents += uint32(by)
	}
}

// findAlias returns the lease that was last granted with this alias.
func (t *leaseTable) findAlias(alias uint64) (int32, bool) {
	return t.find(newestAlias(t.alias.tree, alias))
}

// newestAlias returns the newest lease with an alias, 0 for none: beside the one
// that is live there may be some that are dead and not swept.
func newestAlias(tree *btree.BTreeG[leaseAlias], alias uint64) (id uint64) {
	tree.Descend(leaseAlias{alias: alias, id: math.MaxUint64}, func(a leaseAlias) bool {
		if a.alias == alias {
			id = a.id
		}
		return false
	})
	return id
}

// ownBody returns a body that no view can see.
func (t *leaseTable) ownBody(slot int32) *leaseBody {
	t.touched()
	row := t.rows.own(slot, t.gen)
	if row.body.gen != t.gen {
		body := *row.body
		body.gen = t.gen
		body.keys = row.body.keys.fork()
		row.body = &body
	}
	return row.body
}

// touched starts a new generation at the first change after a view.
func (t *leaseTable) touched() {
	if t.shared {
		t.shared = false
		t.gen++
	}
}

// leaseView is a frozen leaseTable.
type leaseView struct {
	rows  leasePages
	order *btree.BTreeG[leaseSlot]
	alias *btree.BTreeG[leaseAlias]
}

func (t *leaseTable) view() leaseView {
	t.shared = true
	return leaseView{rows: t.rows, order: t.order.freeze(), alias: t.alias.freeze()}
}

func (v *leaseView) find(id uint64) (*leaseRow, bool) {
	s, ok := v.order.Get(leaseSlot{id: id})
	if !ok {
		return nil, false
	}
	return v.rows.at(s.slot), true
}

func (v *leaseView) findAlias(alias uint64) (*leaseRow, bool) {
	return v.find(newestAlias(v.alias, alias))
}

func (v *leaseView) len() int { return v.order.Len() }

// scan visits the leases with an id above after, in order of id.
func (v *leaseView) scan(after uint64, fn func(*leaseRow) bool) {
	v.order.Ascend(leaseSlot{id: after + 1}, func(s leaseSlot) bool { return fn(v.rows.at(s.slot)) })
}

// bodyGen returns the generation that a new body belongs to.
func (t *leaseTable) bodyGen() uint64 {
	t.touched()
	return t.gen
}
