package state

import (
	"slices"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
)

// QueryAs is Query for somebody whose rights are asked for: what they may not see is
// refused, or, of leases, cursors, indexes, users and roles, left out. nil rights may
// see everything. The rights are those that count now; the view's may be older.
func (v *View) QueryAs(rights *auth.Rights, q *messages.Query, now Now) (*messages.QueryReply, *messages.Error) {
	if err := v.permit(rights, q); err != nil {
		return nil, err
	}
	return v.answer(q, &shower{view: v, now: now, rights: rights})
}

// seesLease reports whether a lease is shown: one's own, and nobody's.
func (s *shower) seesLease(row *leaseRow) bool {
	return s.rights.Admin() || row.body.owner == 0 || row.body.owner == s.rights.UserID
}

// seesIndex reports whether an index may be looked up: all of its keys may be read.
func (s *shower) seesIndex(d *messages.IndexDefinition) bool {
	return s.rights.Reads(&messages.Selector{By: &messages.Selector_Prefix{Prefix: d.GetPrefix()}})
}

// checkIndex refuses a lookup in an index of keys that may not be read. Its answers
// would be theirs, and so would the cursor of its next page.
func (s *shower) checkIndex(name string) *messages.Error {
	if s.rights == nil {
		return nil
	}
	for _, info := range s.view.indexes.List() {
		if info.GetDefinition().GetName() == name && s.seesIndex(info.GetDefinition()) {
			return nil
		}
	}
	return s.rights.Denied("read all that is in this index", "name")
}

func (s *shower) indexList() []*messages.IndexInfo {
	all := s.view.indexes.List()
	if s.rights.Admin() {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(i *messages.IndexInfo) bool { return !s.seesIndex(i.GetDefinition()) })
}

// seesCursor: a cursor belongs to whoever has its lease.
func (s *shower) seesCursor(c cursor) bool {
	if s.rights.Admin() {
		return true
	}
	row, ok := s.view.leases.find(c.leaseID)
	return ok && s.seesLease(row)
}

func (v *View) authStatus(s *shower) *messages.AuthStatusReply {
	reply := &messages.AuthStatusReply{
		Enabled: v.auth.Enabled(), AuthRevision: v.auth.Revision(),
		Users: uint64(v.auth.Users()), Roles: uint64(v.auth.Roles()),
	}
	if s.rights != nil {
		reply.User = auth.Shown(v.auth.UserByID(s.rights.UserID))
		reply.Grants = s.rights.Grants()
	}
	return reply
}

func (v *View) userList(q *messages.UserListRequest, s *shower) (*messages.UserListReply, *messages.Error) {
	sees := func(name string) bool { return s.rights.Admin() || s.rights.Name == name }
	reply := &messages.UserListReply{}
	if name := q.GetName(); name != "" {
		u := v.auth.User(name)
		if u == nil || !sees(name) {
			if !s.rights.Admin() {
				return nil, s.rights.Denied("see other users", "name")
			}
			return nil, messages.NewError(messages.Code_CODE_USER_NOT_FOUND, "no user is called %q", name).WithField("name")
		}
		reply.Users = append(reply.Users, auth.Shown(u))
		return reply, nil
	}
	limit := limitOf(q.GetLimit())
	v.auth.EachUser(q.GetAfterName(), func(u *messages.User, _ *auth.Rights) bool {
		if !sees(u.GetName()) {
			return true
		}
		if len(reply.Users) == limit {
			reply.HasMore = true
			return false
		}
		reply.Users = append(reply.Users, auth.Shown(u))
		return true
	})
	return reply, nil
}

func (v *View) roleList(q *messages.RoleListRequest, s *shower) (*messages.RoleListReply, *messages.Error) {
	sees := func(name string) bool {
		return s.rights.Admin() || slices.Contains(v.auth.UserByID(s.rights.UserID).GetRoles(), name)
	}
	reply := &messages.RoleListReply{}
	if name := q.GetName(); name != "" {
		r := v.auth.Role(name)
		if !sees(name) {
			return nil, s.rights.Denied("see other roles", "name")
		}
		if r == nil {
			return nil, messages.NewError(messages.Code_CODE_ROLE_NOT_FOUND, "no role is called %q", name).WithField("name")
		}
		reply.Roles = append(reply.Roles, r)
		return reply, nil
	}
	limit := limitOf(q.GetLimit())
	v.auth.EachRole(q.GetAfterName(), func(r *messages.Role) bool {
		if !sees(r.GetName()) {
			return true
		}
		if len(reply.Roles) == limit {
			reply.HasMore = true
			return false
		}
		reply.Roles = append(reply.Roles, r)
		return true
	})
	return reply, nil
}

// auditList lists audit records from an id on, or, the newest first, from one down.
func (v *View) auditList(q *messages.AuditRequest) *messages.AuditReply {
	reply := &messages.AuditReply{}
	limit := limitOf(q.GetLimit())
	take := func(r *messages.AuditRecord) bool {
		if q.GetPrincipal() != "" && r.GetPrincipal() != q.GetPrincipal() || q.GetAction() != "" && r.GetAction() != q.GetAction() {
			return true
		}
		if len(reply.Records) == limit {
			reply.HasMore = true
			return false
		}
		reply.Records = append(reply.Records, r)
		return true
	}
	after := q.GetAfterId()
	if q.GetNewestFirst() {
		for i := len(v.audit) - 1; i >= 0; i-- {
			if after != 0 && v.audit[i].GetId() >= after {
				continue
			}
			if !take(v.audit[i]) {
				break
			}
		}
		return reply
	}
	for _, r := range v.audit {
		if r.GetId() > after && !take(r) {
			break
		}
	}
	return reply
}
