package state

import (
	"slices"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// history lists the versions of a key, tombstones included, between two revisions.
// From the compact revision on it includes the record that was current there.
func (v *View) history(q *messages.HistoryRequest) (*messages.HistoryReply, *messages.Error) {
	key := string(q.GetKey())
	from, to := q.GetFromRevision(), q.GetToRevision()
	if to == 0 {
		to = v.kv.Revision()
	}
	if from == 0 {
		from = v.kv.Compacted()
	}
	for _, rev := range []struct {
		field    string
		revision uint64
	}{{"from_revision", from}, {"to_revision", to}} {
		if current := v.kv.Revision(); rev.revision > current {
			return nil, futureRevision(rev.field, rev.revision, current)
		}
		if !v.kv.Readable(key, key+"\x00", rev.revision) {
			return nil, compacted(rev.field, rev.revision, v.kv.Floor(key, key+"\x00"))
		}
	}
	after := q.GetAfter()
	if current := v.kv.Revision(); after.GetRevision() > current {
		return nil, futureRevision("after", after.GetRevision(), current)
	}
	if err := v.resumable(key, from, after); err != nil {
		return nil, err
	}
	if after != nil && q.GetNewestFirst() {
		to = min(to, max(after.GetRevision(), from)) // at from stands what was current there
	}
	limit := limitOf(q.GetLimit())
	reply := &messages.HistoryReply{}
	budget := newAnswerBudget()
	visit := func(e store.Event) bool {
		if after != nil && !beyond(e.Rec, after, q.GetNewestFirst()) {
			return true
		}
		if n := len(reply.Versions); n == limit || !budget.fits(e.Rec, false) {
			last := reply.Versions[n-1]
			reply.HasMore, reply.Next = true, &messages.Position{Revision: last.GetRevision(), OpIndex: last.GetOpIndex()}
			return false
		}
		reply.Versions = append(reply.Versions, e.Proto(false, false))
		return true
	}
	if after != nil && !q.GetNewestFirst() && after.GetRevision() > from {
		// The record that was current at from stands before after.
		from = after.GetRevision()
	}
	v.kv.History(key, from, to, q.GetNewestFirst(), visit)
	return reply, nil
}

// resumable refuses to go on after a version when others that come next to it may be
// gone: an answer without them would be a gap that nobody sees.
func (v *View) resumable(key string, from uint64, after *messages.Position) *messages.Error {
	begin := v.kv.Compacted()
	if from < begin {
		begin = v.kv.Floor(key, key+"\x00")
	}
	if after == nil || begin == 0 || from > begin || after.GetRevision() > begin {
		return nil
	}
	if r, ok := v.kv.Get(key, begin); ok && !beyond(r, after, false) {
		return nil
	}
	return compacted("after", after.GetRevision(), begin)
}

// beyond reports whether a version comes after a position, in the order of a reply.
func beyond(r store.Rec, p *messages.Position, newestFirst bool) bool {
	rev, op := r.Mod(), r.OpIndex()
	if rev == p.GetRevision() {
		return newestFirst && op < p.GetOpIndex() || !newestFirst && op > p.GetOpIndex()
	}
	return newestFirst == (rev < p.GetRevision())
}

// changes returns events after a position. It looks at a bounded number of them a
// call, so that a selector that matches few costs no more than one that matches all,
// and says in next how far it has looked.
func (v *View) changes(q *messages.ChangesRequest) (*messages.ChangesReply, *messages.Error) {
	after := q.GetAfter()
	if current := v.kv.Revision(); after.GetRevision() > current {
		return nil, futureRevision("after", after.GetRevision(), current)
	}
	lo, hi := store.Bounds(q.GetSelector())
	limit := limitOf(q.GetLimit())
	reply := &messages.ChangesReply{Next: &messages.Position{Revision: v.kv.Revision(), OpIndex: messages.PositionOpIndexEnd}}
	budget := newAnswerBudget()
	seen := 0
	// last is the event that was looked at before: where the next call goes on.
	last := &messages.Position{Revision: after.GetRevision(), OpIndex: after.GetOpIndex()}
	stop := func() bool {
		reply.Next, reply.HasMore = last, true
		return false
	}
	ok := v.kv.Changes(after.GetRevision(), after.GetOpIndex(), func(e store.Event) bool {
		if seen == messages.ChangesScanMax {
			return stop()
		}
		seen++
		if store.Contains(lo, hi, e.Rec.Key()) && typed(q.GetTypes(), e.Rec) {
			bytes := shownBytes(e.Rec, q.GetKeysOnly())
			if q.GetPrevKv() && e.Prev != "" {
				bytes += shownBytes(e.Prev, q.GetKeysOnly())
			}
			if len(reply.Events) == limit || !budget.fitsBytes(bytes) {
				return stop()
			}
			reply.Events = append(reply.Events, e.Proto(q.GetKeysOnly(), q.GetPrevKv()))
		}
		last.Revision, last.OpIndex = e.Rec.Mod(), e.Rec.OpIndex()
		return true
	})
	if !ok {
		return nil, compacted("after", after.GetRevision(), v.kv.Compacted())
	}
	return reply, nil
}

func typed(types []messages.EventType, r store.Rec) bool {
	t := messages.EventType_EVENT_TYPE_PUT
	if r.Tombstone() {
		t = messages.EventType_EVENT_TYPE_DELETE
	}
	return len(types) == 0 || slices.Contains(types, t)
}
