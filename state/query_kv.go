package state

import (
	"github.com/concord-kv/concord/messages"
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
		if shown := s.show(r, rev == v.kv.Revision()); s.encodes {
			a.get.ProtoReflect().SetUnknown(appendRecord(make([]byte, 0, r.Len()+encodedRoom), shown, false))
		} else {
			a.get.Record = s.record(shown, false)
		}
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
			reply.Records = append(reply.Records, s.record(s.show(r, rev == v.kv.Revision()), false))
		}
	}
	return reply, nil
}

// list answers with a page in messages.
func (v *View) list(q *messages.ListRequest, s *shower) (*messages.ListReply, *messages.Error) {
	var page Page
	if err := v.page(q, s, &page); err != nil {
		return nil, err
	}
	reply := &messages.ListReply{Revision: page.Revision, Count: page.Count, HasMore: page.HasMore}
	if s.encodes {
		reply.LastKey = []byte(page.LastKey())
		reply.ProtoReflect().SetUnknown(s.encode(nil, page.Records, q.GetKeysOnly()))
		return reply, nil
	}
	reply.Records = s.records(page.Records, q.GetKeysOnly())
	if n := len(reply.Records); n > 0 {
		reply.LastKey = reply.Records[n-1].Key
	}
	return reply, nil
}

func limitOf(limit uint32) int {
	if limit == 0 {
		return messages.ListLimitDefault
	}
	return int(limit)
}
