package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
	"github.com/concord-kv/concord/state/index"
	"github.com/concord-kv/concord/state/store"
)

// indexLookup finds the records with an indexed value, at the latest revision, in
// order of value and key.
func (v *View) indexLookup(q *messages.IndexLookupRequest, s *shower) (*messages.IndexLookupReply, *messages.Error) {
	if err := s.checkIndex(q.GetName()); err != nil {
		return nil, err
	}
	query := index.Query{After: q.GetAfter(), Limit: limitOf(q.GetLimit())}
	var parser field.Parser
	for _, part := range []struct {
		field string
		json  []byte
		value *field.Value
	}{
		{"equal_json", q.GetEqualJson(), &query.Equal},
		{"min_json", q.GetMinJson(), &query.Min},
		{"max_json", q.GetMaxJson(), &query.Max},
	} {
		if len(part.json) == 0 {
			continue
		}
		value, err := parser.ParseJSON(part.json)
		if err != nil {
			return nil, messages.InvalidField(part.field, "%v", err)
		}
		*part.value = value
	}
	reply := &messages.IndexLookupReply{}
	budget := newAnswerBudget()
	rev := v.kv.Revision()
	get := func(key string) index.Content {
		r, _ := v.kv.Get(key, rev)
		return contentOf(r)
	}
	page, err := v.indexes.Lookup(q.GetName(), query, get, func(key string) bool {
		r, ok := v.kv.Get(key, rev)
		if !ok {
			panic("state: an index has a key that does not exist: " + key)
		}
		return v.takeFound(reply, r, q.GetKeysOnly(), budget, s)
	})
	if err != nil {
		if err.Detail.GetField() == "" {
			err = err.WithField("name") // there is none of that name, or it is being built
		}
		return nil, err
	}
	reply.HasMore, reply.After = page.More, page.After
	return reply, nil
}

func (v *View) takeFound(reply *messages.IndexLookupReply, r store.Rec, keysOnly bool, budget *answerBudget, s *shower) bool {
	if !budget.fits(r, keysOnly) {
		return false
	}
	reply.Records = append(reply.Records, s.record(s.show(r, true), keysOnly))
	return true
}
