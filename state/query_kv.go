package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// getReply keeps the parts of the most frequent answer in one piece of memory.
type getReply struct {
	reply   messages.QueryReply
	wrapper messages.QueryReply_Get
	get     messages.GetReply
}

func (v *View) get(q *messages.GetRequest, s *shower) (*messages.QueryReply, *messages.Error) {
	rev, err := v.atKey(q.GetKey(), q.GetRevision())
	if err != nil {
		return nil, err
	}
	a := &getReply{}
	a.reply.Revision, a.reply.CompactRevision = v.kv.Revision(), v.kv.Compacted()
	a.reply.Reply, a.wrapper.Get = &a.wrapper, &a.get
	if r, ok := v.kv.Get(keyOf(q.GetKey()), rev); ok {
		a.get.Record = s.record(r, false, rev == v.kv.Revision())
	}
	return &a.reply, nil
}

// getMany reads every key at one revision. A key that does not exist has a record
// with version 0.
func (v *View) getMany(q *messages.GetManyRequest, s *shower) (*messages.GetManyReply, *messages.Error) {
	rev := v.kv.Revision()
	for _, k := range q.GetKeys() {
		if q.GetRevision() == 0 {
			break
		}
		var err *messages.Error
		if rev, err = v.atKey(k, q.GetRevision()); err != nil {
			return nil, err
		}
	}
	reply := &messages.GetManyReply{}
	budget := newAnswerBudget()
	for _, k := range q.GetKeys() {
		r, ok := v.kv.Get(keyOf(k), rev)
		switch {
		case !ok:
			if !budget.fitsBytes(len(k)) {
				reply.HasMore = true
				return reply, nil
			}
			reply.Records = append(reply.Records, &messages.Record{Key: k})
		case !budget.fits(r, false):
			reply.HasMore = true
			return reply, nil
		default:
			reply.Records = append(reply.Records, s.record(r, false, rev == v.kv.Revision()))
		}
	}
	return reply, nil
}

// list reads keys in order. A page ends at the limit or at the size of an answer;
// the next one goes on after last_key at the reply's revision.
func (v *View) list(q *messages.ListRequest, s *shower) (*messages.ListReply, *messages.Error) {
	lo, hi := store.Bounds(q.GetSelector())
	rev, err := v.at(lo, hi, q.GetRevision())
	if err != nil {
		return nil, err
	}
	walk := v.kv.Ascend
	if after := string(q.GetAfterKey()); q.GetDescending() {
		walk = v.kv.Descend
		if after != "" && (hi == "" || after < hi) {
			hi = after
		}
	} else if after != "" {
		lo = max(lo, after+"\x00")
	}
	reply := &messages.ListReply{Revision: rev}
	if hi != "" && lo >= hi {
		return reply, nil
	}
	limit := limitOf(q.GetLimit())
	budget := newAnswerBudget()
	var found []store.Rec
	walk(lo, hi, rev, func(r store.Rec) bool {
		if !listed(q, r) {
			return true
		}
		if q.GetCountOnly() {
			reply.Count++
			return true
		}
		if len(found) == limit || !budget.fits(r, q.GetKeysOnly()) {
			reply.HasMore = true
			return false
		}
		found = append(found, r)
		return true
	})
	reply.Records = s.records(found, q.GetKeysOnly(), rev == v.kv.Revision())
	if n := len(reply.Records); n > 0 {
		reply.LastKey = reply.Records[n-1].Key
	}
	return reply, nil
}

// listed applies the filters of a list; 0 is no bound.
func listed(q *messages.ListRequest, r store.Rec) bool {
	within := func(x, low, high uint64) bool { return x >= low && (high == 0 || x <= high) }
	return within(r.Mod(), q.GetModRevisionMin(), q.GetModRevisionMax()) &&
		within(r.Create(), q.GetCreateRevisionMin(), q.GetCreateRevisionMax())
}

func limitOf(limit uint32) int {
	if limit == 0 {
		return messages.ListLimitDefault
	}
	return int(limit)
}
