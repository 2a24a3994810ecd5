package statetest

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
)

// Query answers a read, with the lease clock as the only time.
func (t *Twin) Query(q *messages.Query) (*messages.QueryReply, *messages.Error) {
	if err := messages.ValidateQuery(q); err != nil {
		return nil, err
	}
	reply := &messages.QueryReply{Revision: t.Revision, CompactRevision: t.Compacted}
	switch r := q.Query.(type) {
	case *messages.Query_Get:
		rev, err := t.at(one(r.Get.Key), r.Get.Revision)
		if err != nil {
			return nil, err
		}
		record := t.state(rev)[string(r.Get.Key)]
		reply.Reply = &messages.QueryReply_Get{Get: &messages.GetReply{Record: t.showAt(rev, record, false)}}
	case *messages.Query_GetMany:
		out := &messages.GetManyReply{}
		for _, k := range r.GetMany.Keys {
			if _, err := t.at(one(k), r.GetMany.Revision); err != nil {
				return nil, err
			}
		}
		b := &budget{}
		for _, k := range r.GetMany.Keys {
			rev, _ := t.at(one(k), r.GetMany.Revision)
			record := t.showAt(rev, t.state(rev)[string(k)], false)
			n := uint64(len(k))
			if record == nil {
				record = &messages.Record{Key: k}
			} else {
				n = size(record)
			}
			if !b.fits(n) {
				out.HasMore = true
				break
			}
			out.Records = append(out.Records, record)
		}
		reply.Reply = &messages.QueryReply_GetMany{GetMany: out}
	case *messages.Query_List:
		out, err := t.list(r.List)
		if err != nil {
			return nil, err
		}
		reply.Reply = &messages.QueryReply_List{List: out}
	case *messages.Query_History:
		out, err := t.history(r.History)
		if err != nil {
			return nil, err
		}
		reply.Reply = &messages.QueryReply_History{History: out}
	case *messages.Query_Changes:
		out, err := t.changes(r.Changes)
		if err != nil {
			return nil, err
		}
		reply.Reply = &messages.QueryReply_Changes{Changes: out}
	case *messages.Query_LeaseInfo:
		out, err := t.leaseInfo(r.LeaseInfo)
		if err != nil {
			return nil, err
		}
		reply.Reply = &messages.QueryReply_LeaseInfo{LeaseInfo: out}
	case *messages.Query_LeaseList:
		reply.Reply = &messages.QueryReply_LeaseList{LeaseList: t.leaseList(r.LeaseList)}
	case *messages.Query_IndexLookup:
		out, err := t.lookup(r.IndexLookup)
		if err != nil {
			return nil, err
		}
		reply.Reply = &messages.QueryReply_IndexLookup{IndexLookup: out}
	case *messages.Query_IndexList:
		out := &messages.IndexListReply{}
		for _, name := range slices.Sorted(maps.Keys(t.Indexes)) {
			out.Indexes = append(out.Indexes, t.indexInfo(t.Indexes[name]))
		}
		reply.Reply = &messages.QueryReply_IndexList{IndexList: out}
	case *messages.Query_CursorList:
		out := &messages.CursorListReply{}
		for _, name := range slices.Sorted(maps.Keys(t.Cursors)) {
			out.Cursors = append(out.Cursors, t.cursorInfo(name, t.Cursors[name]))
		}
		reply.Reply = &messages.QueryReply_CursorList{CursorList: out}
	case *messages.Query_Config:
		reply.Reply = &messages.QueryReply_Config{Config: &messages.ConfigReply{Config: t.Config}}
	case *messages.Query_Status:
		reply.Reply = &messages.QueryReply_Status{Status: t.status()}
	}
	return reply, nil
}

func one(key []byte) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Key{Key: key}}
}

// at resolves and checks the revision of a read.
func (t *Twin) at(s *messages.Selector, rev uint64) (uint64, *messages.Error) {
	if rev == 0 {
		return t.Revision, nil
	}
	if rev > t.Revision {
		return 0, t.future("revision")
	}
	if low := t.lowest(s); rev < low {
		return 0, compacted("revision", low)
	}
	return rev, nil
}

// lowest returns the lowest revision at which everything that a selector names can
// be read.
func (t *Twin) lowest(s *messages.Selector) uint64 {
	low := t.Compacted
	for _, p := range t.Config.ProtectedPrefixes {
		inside := false
		switch by := s.By.(type) {
		case *messages.Selector_Key:
			inside = strings.HasPrefix(string(by.Key), string(p.Prefix))
		case *messages.Selector_Prefix:
			inside = strings.HasPrefix(string(by.Prefix), string(p.Prefix))
		case *messages.Selector_Range:
			// Every key from start on and below end has the prefix exactly if start has it
			// and end is not above the first key after the prefix.
			end := after(string(p.Prefix))
			inside = strings.HasPrefix(string(by.Range.Start), string(p.Prefix)) &&
				(end == "" || len(by.Range.End) > 0 && string(by.Range.End) <= end)
		}
		if inside {
			low = min(low, p.Floor)
		}
	}
	return low
}

// after returns the first key after all keys with a prefix, "" for none.
func after(prefix string) string {
	for prefix != "" && prefix[len(prefix)-1] == 0xFF {
		prefix = prefix[:len(prefix)-1]
	}
	if prefix == "" {
		return ""
	}
	return prefix[:len(prefix)-1] + string([]byte{prefix[len(prefix)-1] + 1})
}

// state folds the events up to a revision.
func (t *Twin) state(rev uint64) map[string]*messages.Record {
	keys := map[string]*messages.Record{}
	for _, e := range t.Log {
		if e.Revision > rev {
			break
		}
		if e.Record.Version == 0 {
			delete(keys, string(e.Record.Key))
		} else {
			keys[string(e.Record.Key)] = e.Record
		}
	}
	return keys
}

// show adds what is derived: the time that is left.
func (t *Twin) show(r *messages.Record, keysOnly bool) *messages.Record {
	r = proto.Clone(r).(*messages.Record)
	if keysOnly {
		r.Value = nil
	}
	if l := t.Leases[r.LeaseId]; l != nil {
		left := max(0, l.Deadline-t.Clock)
		r.RemainingTtlMs = &left
	}
	return r
}

// showAt shows a record of the state at a revision: time is left at the latest only.
func (t *Twin) showAt(rev uint64, r *messages.Record, keysOnly bool) *messages.Record {
	if r == nil {
		return nil
	}
	r = t.show(r, keysOnly)
	if rev != t.Revision {
		r.RemainingTtlMs = nil
	}
	return r
}

func (t *Twin) list(q *messages.ListRequest) (*messages.ListReply, *messages.Error) {
	rev, err := t.at(q.Selector, q.Revision)
	if err != nil {
		return nil, err
	}
	out := &messages.ListReply{Revision: rev}
	state := t.state(rev)
	keys := slices.Sorted(maps.Keys(state))
	if q.Descending {
		slices.Reverse(keys)
	}
	b := &budget{}
	for _, k := range keys {
		r := state[k]
		switch {
		case !names(q.Selector, k),
			len(q.AfterKey) > 0 && !q.Descending && k <= string(q.AfterKey),
			len(q.AfterKey) > 0 && q.Descending && k >= string(q.AfterKey),
			r.ModRevision < q.ModRevisionMin, q.ModRevisionMax != 0 && r.ModRevision > q.ModRevisionMax,
			r.CreateRevision < q.CreateRevisionMin, q.CreateRevisionMax != 0 && r.CreateRevision > q.CreateRevisionMax:
			continue
		}
		if q.CountOnly {
			out.Count++
			continue
		}
		n := size(r)
		if q.KeysOnly {
			n -= uint64(len(r.Value))
		}
		if len(out.Records) == limit(q.Limit) || !b.fits(n) {
			out.HasMore = true
			break
		}
		out.Records = append(out.Records, t.showAt(rev, r, q.KeysOnly))
		out.LastKey = []byte(k)
	}
	return out, nil
}

func limit(n uint32) int {
	if n == 0 {
		return messages.ListLimitDefault
	}
	return int(n)
}

func (t *Twin) history(q *messages.HistoryRequest) (*messages.HistoryReply, *messages.Error) {
	from, to := q.FromRevision, q.ToRevision
	if from == 0 {
		from = t.Compacted
	}
	if to == 0 {
		to = t.Revision
	}
	low := t.lowest(one(q.Key))
	switch {
	case from > t.Revision:
		return nil, t.future("from_revision")
	case from < low:
		return nil, compacted("from_revision", low)
	case to > t.Revision:
		return nil, t.future("to_revision")
	case to < low:
		return nil, compacted("to_revision", low)
	}
	// History begins with the record that was current where it begins.
	begin := t.Compacted
	if from < begin {
		begin = low
	}
	var versions []*messages.Event
	for _, e := range t.Log {
		if string(e.Record.Key) != string(q.Key) || e.Revision > to || from > to {
			continue
		}
		e = proto.Clone(e).(*messages.Event)
		e.Prev = nil
		switch {
		case e.Revision <= begin && from == begin:
			versions = nil
			if e.Record.Version > 0 {
				versions = []*messages.Event{e}
			}
		case e.Revision > begin && e.Revision >= from:
			versions = append(versions, e)
		}
	}
	if q.NewestFirst {
		slices.Reverse(versions)
	}
	if p := q.After; p != nil {
		if p.Revision > t.Revision {
			return nil, t.future("after")
		}
		// What was current where history begins is all that is known of what came before.
		var current *messages.Event
		for _, e := range t.Log {
			if string(e.Record.Key) == string(q.Key) && e.Revision <= begin {
				current = e
			}
		}
		known := current != nil && current.Record.Version > 0 && position(current) <= place(p)
		if begin > 0 && from <= begin && p.Revision <= begin && !known {
			return nil, compacted("after", begin)
		}
		versions = slices.DeleteFunc(versions, func(e *messages.Event) bool {
			return q.NewestFirst && position(e) >= place(p) || !q.NewestFirst && position(e) <= place(p)
		})
	}
	out := &messages.HistoryReply{}
	b := &budget{}
	for _, e := range versions {
		if len(out.Versions) == limit(q.Limit) || !b.fits(size(e.Record)) {
			last := out.Versions[len(out.Versions)-1]
			out.HasMore, out.Next = true, &messages.Position{Revision: last.Revision, OpIndex: last.OpIndex}
			break
		}
		out.Versions = append(out.Versions, e)
	}
	return out, nil
}

// position and place order events of the log. No test has 2^31 revisions.
func position(e *messages.Event) uint64 { return e.Revision<<32 | uint64(e.OpIndex) }

func place(p *messages.Position) uint64 { return p.Revision<<32 | uint64(p.OpIndex) }

func (t *Twin) changes(q *messages.ChangesRequest) (*messages.ChangesReply, *messages.Error) {
	from := q.After.GetRevision()
	if from > t.Revision {
		return nil, t.future("after")
	}
	if from < t.Compacted || from == t.Compacted && from > 0 && q.After.GetOpIndex() != messages.PositionOpIndexEnd {
		return nil, compacted("after", t.Compacted)
	}
	out := &messages.ChangesReply{Next: &messages.Position{Revision: t.Revision, OpIndex: messages.PositionOpIndexEnd}}
	last := &messages.Position{Revision: from, OpIndex: q.After.GetOpIndex()}
	b := &budget{}
	for _, e := range t.Log {
		if e.Revision < from || e.Revision == from && e.OpIndex <= q.After.GetOpIndex() {
			continue
		}
		if names(q.Selector, string(e.Record.Key)) && (len(q.Types) == 0 || slices.Contains(q.Types, e.Type)) {
			e = proto.Clone(e).(*messages.Event)
			if !q.PrevKv {
				e.Prev = nil
			}
			n := size(e.Record)
			if e.Prev != nil {
				n += size(e.Prev)
			}
			if q.KeysOnly {
				n -= uint64(len(e.Record.Value) + len(e.Prev.GetValue()))
				e.Record.Value = nil
				if e.Prev != nil {
					e.Prev.Value = nil
				}
			}
			if len(out.Events) == limit(q.Limit) || !b.fits(n) {
				out.Next, out.HasMore = last, true
				break
			}
			out.Events = append(out.Events, e)
		}
		last = &messages.Position{Revision: e.Revision, OpIndex: e.OpIndex}
	}
	return out, nil
}

func (t *Twin) lease(l *Lease, keys bool) *messages.LeaseInfo {
	info := &messages.LeaseInfo{
		Id: l.ID, TtlMs: l.TTL, RemainingTtlMs: max(0, l.Deadline-t.Clock), GrantedAt: l.GrantedAt,
		KeyCount: uint32(len(t.keysOf(l.ID))), Anonymous: l.Anonymous, Metadata: l.Metadata, Renewals: l.Renewals,
		Alias: l.Alias, SessionId: l.Session,
	}
	if keys {
		for _, k := range t.keysOf(l.ID) {
			info.Keys = append(info.Keys, []byte(k))
		}
	}
	return info
}

func (t *Twin) leaseInfo(q *messages.LeaseInfoRequest) (*messages.LeaseInfoReply, *messages.Error) {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(t.Leases))) { // the newest with the alias
		l := t.Leases[id]
		if q.Alias != 0 && l.Alias == q.Alias || q.Alias == 0 && l.ID == q.LeaseId {
			return &messages.LeaseInfoReply{Lease: t.lease(l, q.Keys)}, nil
		}
	}
	return nil, messages.NewError(messages.Code_CODE_LEASE_NOT_FOUND, "").WithField("lease_id").WithLease(q.LeaseId)
}

func (t *Twin) leaseList(q *messages.LeaseListRequest) *messages.LeaseListReply {
	out := &messages.LeaseListReply{}
	for _, id := range slices.Sorted(maps.Keys(t.Leases)) {
		l := t.Leases[id]
		if id <= q.AfterLeaseId || l.Anonymous && !q.IncludeAnonymous {
			continue
		}
		if len(out.Leases) == limit(q.Limit) {
			out.HasMore = true
			break
		}
		out.Leases = append(out.Leases, t.lease(l, false))
	}
	return out
}

// lookup answers in full: sequences in tests keep to one page.
func (t *Twin) lookup(q *messages.IndexLookupRequest) (*messages.IndexLookupReply, *messages.Error) {
	var equal, low, high field.Value
	for _, p := range []struct {
		name string
		json []byte
		v    *field.Value
	}{{"equal_json", q.EqualJson, &equal}, {"min_json", q.MinJson, &low}, {"max_json", q.MaxJson, &high}} {
		if len(p.json) == 0 {
			continue
		}
		v, err := field.ParseJSON(p.json)
		if err != nil {
			return nil, messages.InvalidField(p.name, "")
		}
		*p.v = v
	}
	info := t.Indexes[q.Name]
	if info == nil {
		return nil, messages.NewError(messages.Code_CODE_INDEX_NOT_FOUND, "").WithField("name")
	}
	if info.Building {
		return nil, messages.NewError(messages.Code_CODE_INDEX_BUILDING, "").WithField("name")
	}
	out := &messages.IndexLookupReply{}
	seen := map[string]bool{}
	for _, e := range t.entries(info) {
		if seen[e.key] || equal != "" && e.value != equal || e.value < low || high != "" && e.value >= high {
			continue
		}
		seen[e.key] = true
		out.Records = append(out.Records, t.show(t.Keys[e.key], q.KeysOnly))
	}
	return out, nil
}

func (t *Twin) status() *messages.StatusReply {
	s := &messages.StatusReply{
		ClusterId: t.ClusterID, Incarnation: t.Incarnation, Revision: t.Revision, CompactRevision: t.Compacted,
		ClockMs: t.Clock, ClockEpoch: t.Epoch, Keys: uint64(len(t.Keys)), Leases: uint64(len(t.Leases)),
		Sessions: uint64(len(t.Sessions)), LogicalBytes: t.bytes(), QuotaBytes: t.Config.QuotaBytes,
		ApplyVersion: t.ApplyVersion, ApplyVersionMax: messages.ApplyVersion,
	}
	consumers := slices.AppendSeq(slices.Collect(maps.Values(t.Cursors)), maps.Values(t.Reports))
	for _, c := range consumers {
		if t.counted(c) && (s.HeldRevision == nil || c.After < *s.HeldRevision) {
			s.HeldRevision = &c.After
		}
	}
	for _, e := range t.Log {
		if e.Revision > t.Compacted {
			s.HistoryEvents++
		}
	}
	return s
}
