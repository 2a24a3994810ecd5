package sim

import (
	"github.com/concord-kv/concord/actors/actortest/watchcheck"
	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/store"
	"google.golang.org/protobuf/proto"
)

// truth is what the cluster has agreed on, as the first replica to get there shows it.
// Every other must show the same.
type truth struct {
	world   *World
	digests map[uint64]uint64 // by log index, where a batch ended
	// events[r-1] are those of revision r.
	events  [][]store.Event
	changes *watchcheck.Truth // the same, for checks of watches
	index   uint64            // the highest that was looked at
	compact uint64
	// writes finds the revisions that wrote a value; values of the workload are unique.
	writes map[string][]uint64
}

func (t *truth) init(w *World) {
	t.world, t.digests, t.writes, t.changes = w, map[uint64]uint64{}, map[string][]uint64{}, watchcheck.NewTruth()
}

func (t *truth) revision() uint64 { return uint64(len(t.events)) }

// applied looks at a node after each batch.
func (w *World) applied(n *Node, entries []consensus.Entry) {
	last := entries[len(entries)-1].Index
	events := n.events
	n.events = nil
	v := n.look()
	if v == nil {
		w.failf("fail-stop", "n%d: apply does not answer", n.id)
		return
	}
	before := uint64(0)
	if n.view != nil {
		before = n.view.Revision()
	}
	n.view = v
	w.trace("applied n%d index %d revision %d digest %016x", n.id, last, v.Revision(), v.Digest())
	w.truth.revisions(n, before, v.Revision(), events)
	w.truth.digest(n, last, v)
	w.checkKeys(n, v)
	w.checkIndexes(n, v)
	if last <= w.truth.index {
		return
	}
	for i := range entries {
		if entries[i].Index > w.truth.index {
			e := &messages.Entry{}
			if err := proto.Unmarshal(entries[i].Payload, e); err != nil {
				panic(err) // apply has decoded it
			}
			w.leases.entry(n, entries[i].Payload, e, entries[i].Results)
		}
	}
	w.truth.index = last
	if to := v.CompactRevision(); to > w.truth.compact {
		w.truth.compact = to
		w.compacted(to)
	}
	w.leases.compare(n, v)
}

// restored looks at a node that got a snapshot.
func (w *World) restored(n *Node, index uint64, err error) {
	if err != nil {
		w.failf("I1", "n%d cannot restore the snapshot of index %d: %v", n.id, index, err)
		return
	}
	n.events = nil
	v := n.look()
	if v == nil {
		w.failf("fail-stop", "n%d: apply does not answer", n.id)
		return
	}
	n.view = v
	w.watchStats.Restored += w.watchesAt(n.id)
	w.trace("restored n%d index %d revision %d digest %016x", n.id, index, v.Revision(), v.Digest())
	w.truth.digest(n, index, v)
	w.checkKeys(n, v)
	w.checkIndexes(n, v)
}

func (t *truth) digest(n *Node, index uint64, v *state.View) {
	d, known := t.digests[index]
	if !known {
		t.digests[index] = v.Digest()
	} else if d != v.Digest() {
		t.world.failf("I1", "n%d has digest %016x at index %d, another had %016x", n.id, v.Digest(), index, d)
	}
}

// revisions checks what a batch added: dense, and the same on every replica.
func (t *truth) revisions(n *Node, from, to uint64, events []store.Event) {
	w := t.world
	if to < from {
		w.failf("I2", "n%d went back from revision %d to %d", n.id, from, to)
		return
	}
	for i := 0; i < len(events); {
		r := events[i].Rec.Mod()
		if r != from+1 {
			w.failf("I2", "n%d: revision %d follows %d", n.id, r, from)
			return
		}
		j := i
		for ; j < len(events) && events[j].Rec.Mod() == r; j++ {
			if int(events[j].Rec.OpIndex()) != j-i {
				w.failf("I2", "n%d: event (%d, %d) stands at place %d", n.id, r, events[j].Rec.OpIndex(), j-i)
				return
			}
		}
		t.add(n, r, events[i:j])
		from, i = r, j
	}
	if from != to {
		w.failf("I2", "n%d: revision %d without events", n.id, to)
	}
}

func (t *truth) add(n *Node, r uint64, events []store.Event) {
	w := t.world
	switch {
	case r <= t.revision():
		known := t.events[r-1]
		if len(known) != len(events) {
			w.failf("I1", "n%d has %d events at revision %d, another has %d", n.id, len(events), r, len(known))
			return
		}
		for i := range events {
			if events[i].Rec != known[i].Rec {
				w.failf("I1", "n%d has another event at (%d, %d)", n.id, r, i)
				return
			}
		}
	case r == t.revision()+1:
		t.events = append(t.events, append([]store.Event(nil), events...))
		var changes []watchcheck.Change
		for _, e := range events {
			changes = append(changes, watchcheck.Change{Key: e.Rec.Key(), Value: e.Rec.Value(), Deleted: e.Rec.Tombstone()})
		}
		if err := t.changes.Wrote(r, changes...); err != nil {
			w.failf("I2", "%v", err)
		}
		for _, e := range events {
			if v := e.Rec.Value(); !e.Rec.Tombstone() && v != "" {
				t.writes[v] = append(t.writes[v], r)
				if len(t.writes[v]) > 1 {
					w.failf("exactly-once", "%q was written at revisions %v", v, t.writes[v])
				}
			}
		}
	default:
		w.failf("I2", "n%d: revision %d, but nobody has applied %d", n.id, r, r-1)
	}
}

// event returns an event by its id, nil if there is none.
func (t *truth) event(revision uint64, op uint32) *store.Event {
	if revision == 0 || revision > t.revision() || int(op) >= len(t.events[revision-1]) {
		return nil
	}
	return &t.events[revision-1][op]
}

// at returns the record of a key at a revision; "" if there is none.
func (t *truth) at(key string, revision uint64) store.Rec {
	for r := min(revision, t.revision()); r > 0; r-- {
		events := t.events[r-1]
		for i := len(events) - 1; i >= 0; i-- {
			if events[i].Rec.Key() == key {
				if events[i].Rec.Tombstone() {
					return ""
				}
				return events[i].Rec
			}
		}
	}
	return ""
}

// checkKeys holds key.lease against lease.keys (I4).
func (w *World) checkKeys(n *Node, v *state.View) {
	attached := map[string]uint64{}
	list, err := v.Query(&messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{
		Selector: everything, Limit: messages.ListLimitMax, KeysOnly: true,
	}}}, state.Now{})
	if err != nil {
		w.failf("I4", "n%d: %v", n.id, err)
		return
	}
	for _, r := range list.GetList().GetRecords() {
		if r.LeaseId != 0 {
			attached[string(r.Key)] = r.LeaseId
		}
	}
	leases, err := v.Query(&messages.Query{Query: &messages.Query_LeaseList{LeaseList: &messages.LeaseListRequest{
		IncludeAnonymous: true, Limit: messages.ListLimitMax,
	}}}, state.Now{})
	if err != nil {
		w.failf("I4", "n%d: %v", n.id, err)
		return
	}
	for _, l := range leases.GetLeaseList().GetLeases() {
		if l.KeyCount == 0 {
			continue
		}
		info, err := v.Query(&messages.Query{Query: &messages.Query_LeaseInfo{LeaseInfo: &messages.LeaseInfoRequest{LeaseId: l.Id, Keys: true}}}, state.Now{})
		if err != nil {
			w.failf("I4", "n%d: lease %d is listed and has no info: %v", n.id, l.Id, err)
			return
		}
		for _, k := range info.GetLeaseInfo().GetLease().GetKeys() {
			if attached[string(k)] != l.Id {
				w.failf("I4", "n%d: lease %d names key %q, which names lease %d", n.id, l.Id, k, attached[string(k)])
			}
			delete(attached, string(k))
		}
	}
	for k, l := range attached {
		w.failf("I4", "n%d: key %q names lease %d, which does not name it", n.id, k, l)
	}
}

var everything = &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte{}}}
