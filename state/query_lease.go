package state

import "github.com/concord-kv/concord/messages"

// leaseInfo shows a lease by id or alias, anonymous ones too. One that is past its
// deadline shows, with no time left, until its end is applied, like its keys.
func (v *View) leaseInfo(q *messages.LeaseInfoRequest, s *shower) (*messages.LeaseInfoReply, *messages.Error) {
	row, ok := v.leases.find(q.GetLeaseId())
	if q.GetAlias() != 0 {
		row, ok = v.leases.findAlias(q.GetAlias())
	}
	if !ok {
		return nil, leaseNotFound(q.GetLeaseId()).WithField("lease_id")
	}
	if s.rights != nil && !s.seesLease(row) {
		return nil, s.rights.Denied("see this lease", "lease_id")
	}
	info := row.info(s.clockMs())
	if q.GetKeys() {
		row.body.keys.scan(func(key string) bool {
			if !s.rights.ReadsKey(key) {
				return true
			}
			info.Keys = append(info.Keys, []byte(key))
			return true
		})
	}
	return &messages.LeaseInfoReply{Lease: info}, nil
}

// leaseList lists leases in order of id.
func (v *View) leaseList(q *messages.LeaseListRequest, s *shower) *messages.LeaseListReply {
	reply := &messages.LeaseListReply{}
	limit := limitOf(q.GetLimit())
	budget := newAnswerBudget()
	v.leases.scan(q.GetAfterLeaseId(), func(row *leaseRow) bool {
		if row.anonymous && !q.GetIncludeAnonymous() || s.rights != nil && !s.seesLease(row) {
			return true
		}
		if len(reply.Leases) == limit || !budget.fitsBytes(leaseInfoBytes(row)) {
			reply.HasMore = true
			return false
		}
		reply.Leases = append(reply.Leases, row.info(s.clockMs()))
		return true
	})
	return reply
}

// leaseInfoBytes is what a lease counts towards the size of an answer.
func leaseInfoBytes(row *leaseRow) int {
	n := 64
	for _, e := range row.body.metadata {
		n += len(e.GetName()) + len(e.GetValue())
	}
	return n
}

func (row *leaseRow) info(clockMs int64) *messages.LeaseInfo {
	return &messages.LeaseInfo{
		Id:             row.id,
		TtlMs:          row.ttlMs,
		RemainingTtlMs: max(0, row.deadlineMs-clockMs),
		GrantedAt:      row.body.grantedAt,
		KeyCount:       uint32(row.body.keys.len()),
		Anonymous:      row.anonymous,
		Metadata:       row.body.metadata,
		Renewals:       row.renewals,
		Alias:          row.body.alias,
		SessionId:      row.body.sessionID,
	}
}

// cursorList lists the named cursors by name.
func (v *View) cursorList(s *shower) *messages.CursorListReply {
	reply := &messages.CursorListReply{}
	v.cursors.Scan(func(c cursor) bool {
		if !s.seesCursor(c) {
			return true
		}
		reply.Cursors = append(reply.Cursors, c.info(v.kv.Revision(), v.kv.Compacted(), v.config.GetConsumerLagMax()))
		return true
	})
	return reply
}
