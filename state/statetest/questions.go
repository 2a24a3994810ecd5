package statetest

import "github.com/concord-kv/concord/messages"

// Query returns a read, most often of what exists.
func (g *Generator) Query() *messages.Query {
	switch g.n(13) {
	case 0:
		return &messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: g.Key(), Revision: g.read()}}}
	case 1:
		q := &messages.GetManyRequest{Revision: g.read()}
		for range 1 + g.n(5) {
			q.Keys = append(q.Keys, g.Key())
		}
		return &messages.Query{Query: &messages.Query_GetMany{GetMany: q}}
	case 2, 3, 4:
		return &messages.Query{Query: &messages.Query_List{List: g.list()}}
	case 5, 6:
		q := &messages.HistoryRequest{Key: g.Key(), FromRevision: g.read(), ToRevision: g.read(), Limit: uint32(g.n(5)), NewestFirst: g.one(2)}
		if q.ToRevision != 0 && q.FromRevision > q.ToRevision {
			q.FromRevision, q.ToRevision = q.ToRevision, q.FromRevision
		}
		if g.one(3) {
			q.After = &messages.Position{Revision: g.Revision(), OpIndex: uint32(g.n(4))}
		}
		return &messages.Query{Query: &messages.Query_History{History: q}}
	case 7, 8:
		q := &messages.ChangesRequest{
			Selector: g.Selector(), After: &messages.Position{Revision: g.Revision(), OpIndex: messages.PositionOpIndexEnd},
			Limit: uint32(g.n(5)), KeysOnly: g.one(4), PrevKv: g.one(2),
		}
		if g.one(2) {
			q.After.OpIndex = uint32(g.n(3))
		}
		if g.one(3) {
			q.Types = append(q.Types, messages.EventType(1+g.n(2)))
		}
		return &messages.Query{Query: &messages.Query_Changes{Changes: q}}
	case 9:
		q := &messages.LeaseInfoRequest{LeaseId: g.lease(), Keys: true}
		if g.one(3) {
			q.LeaseId, q.Alias = 0, uint64(g.n(4))
		}
		return &messages.Query{Query: &messages.Query_LeaseInfo{LeaseInfo: q}}
	case 10:
		return &messages.Query{Query: &messages.Query_LeaseList{LeaseList: &messages.LeaseListRequest{
			IncludeAnonymous: g.one(2), Limit: uint32(g.n(4)), AfterLeaseId: uint64(g.n(3)),
		}}}
	case 11:
		q := &messages.IndexLookupRequest{Name: []string{"i1", "i2"}[g.n(2)], KeysOnly: g.one(4)}
		values := [][]byte{[]byte("1"), []byte(`"x"`), []byte("null"), []byte("true"), []byte("[1]"), []byte("{"), nil}
		if g.one(2) {
			q.EqualJson = values[g.n(len(values))]
		} else {
			q.MinJson, q.MaxJson = values[g.n(len(values))], values[g.n(len(values))]
		}
		return &messages.Query{Query: &messages.Query_IndexLookup{IndexLookup: q}}
	}
	return []*messages.Query{
		{Query: &messages.Query_IndexList{IndexList: &messages.IndexListRequest{}}},
		{Query: &messages.Query_CursorList{CursorList: &messages.CursorListRequest{}}},
		{Query: &messages.Query_Config{Config: &messages.ConfigRequest{}}},
		{Query: &messages.Query_Status{Status: &messages.StatusRequest{}}},
	}[g.n(4)]
}

func (g *Generator) list() *messages.ListRequest {
	q := &messages.ListRequest{
		Selector: g.Selector(), Revision: g.read(), Limit: uint32(g.n(5)), KeysOnly: g.one(4), CountOnly: g.one(5), Descending: g.one(2),
	}
	if g.one(3) {
		q.AfterKey = g.Key()
	}
	if g.one(4) {
		q.ModRevisionMin = g.Revision()
	}
	if g.one(4) {
		q.ModRevisionMax = q.ModRevisionMin + uint64(g.n(10))
	}
	if g.one(6) {
		q.CreateRevisionMin = g.Revision()
	}
	if g.one(6) {
		q.CreateRevisionMax = q.CreateRevisionMin + uint64(g.n(10))
	}
	return q
}

// read returns a revision to read at, half of the time the latest.
func (g *Generator) read() uint64 {
	if g.one(2) {
		return 0
	}
	return g.Revision()
}
