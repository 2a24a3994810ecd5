package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// warm reads what the commands of an entry are about to need, and does nothing with
// it. With a million leases or keys, each step from table to table is a wait for
// memory, and a command's steps wait for one another; those of different commands do
// not. So the entry's commands take each step together here, and the processor waits
// for all of them at once; Apply then finds everything in its cache. What is read may
// be out of date by the time its command comes: it is a hint and no more.
func (m *Machine) warm(commands []*messages.Command) {
	if len(commands) < warmMin {
		return
	}
	var ids [warmMax]uint64
	var keys [warmMax]string
	leases, puts := 0, 0
	for _, c := range commands {
		switch op := c.GetOp().(type) {
		case *messages.Command_KeepAliveLease:
			ids[leases] = op.KeepAliveLease.GetLeaseId()
			leases++
		case *messages.Command_Put:
			keys[puts] = keyOf(op.Put.GetKey())
			puts++
		case *messages.Command_Txn:
			if compares := op.Txn.GetCompares(); len(compares) > 0 {
				keys[puts] = keyOf(compares[0].GetKey())
				puts++
			}
		}
		if leases == warmMax {
			m.warmth += m.leases.warm(ids[:leases])
			leases = 0
		}
		if puts == warmMax {
			m.warmth += m.kv.Warm(keys[:puts])
			puts = 0
		}
	}
	if leases >= warmMin {
		m.warmth += m.leases.warm(ids[:leases])
	}
	if puts >= warmMin {
		m.warmth += m.kv.Warm(keys[:puts])
	}
}

const (
	warmMin = 4 // fewer are not worth it
	warmMax = store.WarmMax
)

// warm takes at most warmMax ids. Each loop is one step, of loads that do not depend
// on each other. The sum makes the loads happen; it has no meaning.
func (t *leaseTable) warm(ids []uint64) (sum uint64) {
	var pages [warmMax]*leaseIDPage
	var rows [warmMax]*leasePage
	var slots, places [warmMax]int32
	n := 0
	for _, id := range ids {
		if p := t.byID.pages[id/leaseIDPageSize]; p != nil {
			pages[n], ids[n] = p, id
			n++
		}
	}
	for i, p := range pages[:n] {
		slots[i] = p.slots[ids[i]%leaseIDPageSize] - 1
	}
	live := slots[:0]
	for _, s := range slots[:n] {
		if s >= 0 {
			live = append(live, s)
		}
	}
	for i, s := range live {
		places[i] = t.byTime.at[s]
		rows[i] = t.rows.page(s)
	}
	for i, s := range live {
		row := &rows[i].rows[s%leasePageRows]
		sum += rows[i].gen + row.id + row.fixed
	}
	q := t.byTime.heap
	for i := range live {
		at := int(places[i])
		sum += uint64(q[at].ms)
		if child := 4*at + 1; child < len(q) {
			sum += uint64(q[child].ms) + uint64(q[min(child+3, len(q)-1)].ms)
		}
	}
	return sum
}
