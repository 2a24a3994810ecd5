package state

import (
	"sort"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// write is what the command that is being applied is about to store. All of it gets
// one revision, or none of it happens. Every way of writing (put, transaction,
// expiry, ...) goes through it, so that no derived table is forgotten by one.
type write struct {
	revision uint64
	records  []store.Rec // in op_index order
	bytes    uint64
	// tracked: the command may read what it wrote. latest then holds the last
	// record of each key, tombstones too, in key order.
	tracked bool
	latest  []store.Rec
	answer  answerBudget
}

// begin starts the write of a command. Commands whose keys are all different need
// no tracking.
func (m *Machine) begin(tracked bool) {
	m.write.revision = m.kv.Revision() + 1
	m.write.tracked = tracked
	m.write.answer = answerBudget{}
}

// current returns the live record of a key as the command sees it.
func (m *Machine) current(key string) (store.Rec, bool) {
	if m.write.tracked {
		if i, found := m.write.find(key); found {
			r := m.write.latest[i]
			return r, !r.Tombstone()
		}
	}
	return m.kv.Get(key)
}

// scan visits live records with lo <= key < hi as the command sees them, until fn
// returns false. fn must not write.
func (m *Machine) scan(lo, hi string, descending bool, fn func(store.Rec) bool) {
	var mine []store.Rec
	if m.write.tracked {
		from, _ := m.write.find(lo)
		to := len(m.write.latest)
		if hi != "" {
			to, _ = m.write.find(hi)
		}
		mine = m.write.latest[from:max(from, to)]
	}
	if len(mine) == 0 {
		m.walk(lo, hi, descending, fn)
		return
	}
	take := func() (r store.Rec) {
		if descending {
			r, mine = mine[len(mine)-1], mine[:len(mine)-1]
		} else {
			r, mine = mine[0], mine[1:]
		}
		return r
	}
	peek := func() store.Rec {
		if descending {
			return mine[len(mine)-1]
		}
		return mine[0]
	}
	stopped := false
	give := func(r store.Rec) bool {
		stopped = !r.Tombstone() && !fn(r)
		return !stopped
	}
	m.walk(lo, hi, descending, func(r store.Rec) bool {
		for len(mine) > 0 {
			k := peek().Key()
			if k == r.Key() {
				return give(take())
			}
			if (k < r.Key()) == descending {
				break
			}
			if !give(take()) {
				return false
			}
		}
		return give(r)
	})
	for !stopped && len(mine) > 0 {
		give(take())
	}
}

func (m *Machine) walk(lo, hi string, descending bool, fn func(store.Rec) bool) {
	if descending {
		m.kv.Descend(lo, hi, fn)
	} else {
		m.kv.Ascend(lo, hi, fn)
	}
}

// stage adds one record. Its revision and op_index are the next of this write.
func (m *Machine) stage(r store.Rec) {
	w := &m.write
	w.records = append(w.records, r)
	w.bytes += r.LogicalBytes() + store.EventBytes
	if !w.tracked {
		return
	}
	if i, found := w.find(r.Key()); found {
		w.latest[i] = r
	} else {
		w.latest = append(w.latest, "")
		copy(w.latest[i+1:], w.latest[i:])
		w.latest[i] = r
	}
}

// find returns the place of a key in latest.
func (w *write) find(key string) (int, bool) {
	// Range deletes come in key order: the end is the usual place.
	if n := len(w.latest); n == 0 || w.latest[n-1].Key() < key {
		return n, false
	}
	i := sort.Search(len(w.latest), func(i int) bool { return w.latest[i].Key() >= key })
	return i, i < len(w.latest) && w.latest[i].Key() == key
}

// next returns the op_index of the next record.
func (w *write) next() uint32 { return uint32(len(w.records)) }

// keys returns how many keys the write changes.
func (w *write) keys() int {
	if w.tracked {
		return len(w.latest)
	}
	return len(w.records)
}

// room refuses a record that would take the store beyond its quota, or the command
// beyond its number of keys. Only what grows the store on a client's wish asks for
// bytes; deletes never do.
func (m *Machine) room(r store.Rec) *messages.Error {
	w := &m.write
	if w.tracked && len(w.latest) >= messages.CommandKeysMax {
		if _, again := w.find(r.Key()); !again {
			return tooManyKeys("key")
		}
	}
	quota := m.config.GetQuotaBytes()
	if m.kv.LogicalBytes()+w.bytes+r.LogicalBytes()+store.EventBytes <= quota {
		return nil
	}
	return messages.NewError(messages.Code_CODE_NO_SPACE, "%d bytes are stored, at most %d; deleting and compacting make room",
		m.kv.LogicalBytes(), quota).WithLimit(quota)
}

// commit stores what was staged and returns the revision that holds it: the next
// one, or the current one when nothing was.
func (m *Machine) commit() uint64 {
	w := &m.write
	if len(w.records) > 0 {
		m.effects.Advanced[m.kind]++
	}
	indexed := m.indexes.Len() > 0
	for i, r := range w.records {
		prev := m.kv.Put(r)
		if indexed {
			m.indexes.Update(r.Key(), contentOf(prev), contentOf(r))
		}
		m.effects.Events = append(m.effects.Events, store.Event{Rec: r, Prev: prev})
		w.records[i] = ""
	}
	m.journal.forget()
	w.reset()
	return m.kv.Revision()
}

// abandon drops what was staged and undoes what the command did to leases.
func (m *Machine) abandon() {
	m.undo()
	clear(m.write.records)
	m.write.reset()
}

func (w *write) reset() {
	clear(w.latest)
	w.records, w.latest, w.bytes, w.tracked = w.records[:0], w.latest[:0], 0, false
	if cap(w.records) > writeScratchMax {
		w.records, w.latest = nil, nil
	}
}

// writeScratchMax bounds the memory that an unusually large command leaves behind.
const writeScratchMax = 1 << 10
