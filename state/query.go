package state

import (
	"math"

	"github.com/concord-kv/concord/messages"
)

// Now is what the answering node knows about time. It is for display: no query
// decides anything by it, so a key is visible until the revision that deletes it,
// whatever any clock says.
type Now struct {
	// ClockMs is an estimate of the lease clock, 0 for none.
	ClockMs int64
	// WallMs is Unix time, 0 for none.
	WallMs int64
}

// Query answers one read. Refusals: CODE_INVALID_ARGUMENT with the field,
// CODE_COMPACTED and CODE_FUTURE_REVISION with the revisions, and what the query's
// own method says. Status answers the part that the state knows.
func (v *View) Query(q *messages.Query, now Now) (*messages.QueryReply, *messages.Error) {
	return v.QueryAs(nil, q, now)
}

// answer answers a valid query.
func (v *View) answer(q *messages.Query, s *shower) (*messages.QueryReply, *messages.Error) {
	if get, ok := q.Query.(*messages.Query_Get); ok {
		return v.get(get.Get, s)
	}
	reply := &messages.QueryReply{Revision: v.kv.Revision(), CompactRevision: v.kv.Compacted()}
	if err := v.query(reply, q, s); err != nil {
		return nil, err
	}
	return reply, nil
}

func (v *View) query(reply *messages.QueryReply, q *messages.Query, s *shower) (err *messages.Error) {
	switch r := q.Query.(type) {
	case *messages.Query_GetMany:
		a := &messages.QueryReply_GetMany{}
		a.GetMany, err = v.getMany(r.GetMany, s)
		reply.Reply = a
	case *messages.Query_List:
		a := &messages.QueryReply_List{}
		a.List, err = v.list(r.List, s)
		reply.Reply = a
	case *messages.Query_History:
		a := &messages.QueryReply_History{}
		a.History, err = v.history(r.History)
		reply.Reply = a
	case *messages.Query_Changes:
		a := &messages.QueryReply_Changes{}
		a.Changes, err = v.changes(r.Changes)
		reply.Reply = a
	case *messages.Query_Revision:
		reply.Reply = &messages.QueryReply_RevisionReply{RevisionReply: &messages.RevisionReply{
			Revision: v.kv.Revision(), CompactRevision: v.kv.Compacted(),
		}}
	case *messages.Query_LeaseInfo:
		a := &messages.QueryReply_LeaseInfo{}
		a.LeaseInfo, err = v.leaseInfo(r.LeaseInfo, s)
		reply.Reply = a
	case *messages.Query_LeaseList:
		reply.Reply = &messages.QueryReply_LeaseList{LeaseList: v.leaseList(r.LeaseList, s)}
	case *messages.Query_IndexLookup:
		a := &messages.QueryReply_IndexLookup{}
		a.IndexLookup, err = v.indexLookup(r.IndexLookup, s)
		reply.Reply = a
	case *messages.Query_IndexList:
		reply.Reply = &messages.QueryReply_IndexList{IndexList: &messages.IndexListReply{Indexes: s.indexList()}}
	case *messages.Query_CursorList:
		reply.Reply = &messages.QueryReply_CursorList{CursorList: v.cursorList(s)}
	case *messages.Query_Config:
		reply.Reply = &messages.QueryReply_Config{Config: &messages.ConfigReply{Config: v.config}}
	case *messages.Query_Status:
		reply.Reply = &messages.QueryReply_Status{Status: v.Status()}
	case *messages.Query_AuthStatus:
		reply.Reply = &messages.QueryReply_AuthStatus{AuthStatus: v.authStatus(s)}
	case *messages.Query_UserList:
		a := &messages.QueryReply_UserList{}
		a.UserList, err = v.userList(r.UserList, s)
		reply.Reply = a
	case *messages.Query_RoleList:
		a := &messages.QueryReply_RoleList{}
		a.RoleList, err = v.roleList(r.RoleList, s)
		reply.Reply = a
	case *messages.Query_Audit:
		reply.Reply = &messages.QueryReply_Audit{Audit: v.auditList(r.Audit)}
	default:
		return messages.NewError(messages.Code_CODE_UNSUPPORTED, "no answer to %T", q.Query).WithField("query")
	}
	return err
}

// at resolves the revision of a read over the keys lo <= key < hi; 0 is the latest.
func (v *View) at(lo, hi string, revision uint64) (uint64, *messages.Error) {
	current := v.kv.Revision()
	switch {
	case revision == 0:
		return current, nil
	case revision > current:
		return 0, futureRevision("revision", revision, current)
	case !v.kv.Readable(lo, hi, revision):
		return 0, compacted("revision", revision, v.kv.Floor(lo, hi))
	}
	return revision, nil
}

// atKey is at for one key.
func (v *View) atKey(key []byte, revision uint64) (uint64, *messages.Error) {
	switch current := v.kv.Revision(); {
	case revision == 0:
		return current, nil
	case revision <= current && revision >= v.kv.Compacted():
		return revision, nil
	}
	return v.at(string(key), string(key)+"\x00", revision)
}

// Status returns the part of a status answer that the state knows.
func (v *View) Status() *messages.StatusReply {
	var held *uint64
	if floor := floorOf(v.cursors.Scan, v.reports.Scan, v.kv.Revision(), v.kv.Compacted(), v.config.GetConsumerLagMax()); floor != math.MaxUint64 {
		held = &floor
	}
	return &messages.StatusReply{
		ClusterId:       v.global.clusterID,
		Incarnation:     v.global.incarnation,
		AppliedIndex:    v.applied,
		Revision:        v.kv.Revision(),
		CompactRevision: v.kv.Compacted(),
		ClockMs:         v.clock.ms,
		ClockEpoch:      v.clock.epoch,
		Keys:            uint64(v.kv.Keys()),
		Leases:          uint64(v.leases.len()),
		Sessions:        uint64(v.sessions.Len()),
		HistoryEvents:   uint64(v.kv.Events()),
		LogicalBytes:    v.kv.LogicalBytes(),
		QuotaBytes:      v.config.GetQuotaBytes(),
		Digest:          v.digest,
		ApplyVersion:    v.global.applyVersion,
		ApplyVersionMax: v.supported,
		HeldRevision:    held,
	}
}
