package state_test

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
)

// rights are those of whoever asks; nil while authorization is disabled, and for a
// trusted asker. Somebody who does not exist has none.
func (s *script) rights() *auth.Rights {
	if s.as == "" || !s.machine.Auth().Enabled() {
		return nil
	}
	r, ok := s.machine.Auth().Rights(s.machine.Auth().User(s.as).GetId())
	if !ok {
		return &auth.Rights{Name: s.as}
	}
	return r
}

func (s *script) authTable() map[string]func(*line) string {
	return map[string]func(*line) string{
		"auth": s.changeAuth, "auth_status": s.authStatus, "users": s.users, "roles": s.roles, "audit": s.audit,
		"record_audit": s.recordAudit,
	}
}

// testHash is the form of a password's hash; nobody checks a password here.
const testHash = "pbkdf2-sha256$10000$c2FsdHNhbHQ$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"

func (s *script) changeAuth(l *line) string {
	c := &messages.ChangeAuth{}
	key := bytes.Repeat([]byte{byte(s.index)}, messages.TokenKeyBytes)
	hash := testHash
	if l.flags["no_password"] {
		hash = ""
	}
	switch l.word(0) {
	case "enable":
		c.Change = &messages.ChangeAuth_Enable{Enable: &messages.EnableAuth{TokenKey: key}}
	case "disable":
		c.Change = &messages.ChangeAuth_Disable{Disable: &messages.DisableAuth{}}
	case "add_user":
		c.Change = &messages.ChangeAuth_AddUser{AddUser: &messages.AddUser{Name: l.word(1), PasswordHash: hash, Roles: l.words[2:]}}
	case "delete_user":
		c.Change = &messages.ChangeAuth_DeleteUser{DeleteUser: &messages.DeleteUser{Name: l.word(1)}}
	case "password":
		c.Change = &messages.ChangeAuth_SetPassword{SetPassword: &messages.SetPassword{Name: l.word(1), PasswordHash: hash}}
	case "grant_role":
		c.Change = &messages.ChangeAuth_GrantRole{GrantRole: &messages.GrantRole{User: l.word(1), Role: l.word(2)}}
	case "revoke_role":
		c.Change = &messages.ChangeAuth_RevokeRole{RevokeRole: &messages.RevokeRole{User: l.word(1), Role: l.word(2)}}
	case "add_role":
		c.Change = &messages.ChangeAuth_AddRole{AddRole: &messages.AddRole{Name: l.word(1)}}
	case "delete_role":
		c.Change = &messages.ChangeAuth_DeleteRole{DeleteRole: &messages.DeleteRole{Name: l.word(1)}}
	case "grant":
		c.Change = &messages.ChangeAuth_GrantRights{GrantRights: &messages.GrantRights{Role: l.word(1), Grant: l.grantOf()}}
	case "revoke":
		c.Change = &messages.ChangeAuth_RevokeRights{RevokeRights: &messages.RevokeRights{Role: l.word(1), Grant: l.grantOf()}}
	case "revoke_tokens":
		c.Change = &messages.ChangeAuth_RevokeTokens{RevokeTokens: &messages.RevokeTokens{User: l.option("user", ""), TokenKey: key}}
	}
	action := l.word(0)
	r := s.apply(l, &messages.Command{
		Audit: &messages.AuditContext{AtUnixMs: 1, Address: "here", Action: action, Detail: strings.Join(l.words[1:], " ")},
		Op:    &messages.Command_ChangeAuth{ChangeAuth: c},
	})
	extra := ""
	if a := r.GetAuth(); a != nil {
		extra = fmt.Sprintf("auth %d", a.AuthRevision)
		if a.Enabled {
			extra += " enabled"
		}
		if a.User != nil {
			extra += " " + formatUser(a.User)
		}
		if a.Role != nil {
			extra += " " + formatRole(a.Role)
		}
	}
	return formatResult(r, "%s", extra)
}

func (l *line) grantOf() *messages.Grant {
	return &messages.Grant{
		Selector: l.selector(2), Read: l.flags["read"], Write: l.flags["write"], Lease: l.flags["attach"], Admin: l.flags["admin"],
	}
}

func formatUser(u *messages.User) string {
	s := fmt.Sprintf("user %s id %d roles %v since %d", u.Name, u.Id, u.Roles, u.CredentialRevision)
	if u.HasPassword {
		s += " password"
	}
	if u.PasswordHash != "" {
		s += " LEAKS ITS HASH"
	}
	return s
}

func formatRole(r *messages.Role) string {
	s := "role " + r.Name
	for _, g := range r.Grants {
		s += " " + formatGrant(g)
	}
	return s
}

func formatGrant(g *messages.Grant) string {
	s := ""
	for _, f := range []struct {
		on     bool
		letter string
	}{{g.Read, "r"}, {g.Write, "w"}, {g.Lease, "l"}, {g.Admin, "a"}} {
		if f.on {
			s += f.letter
		}
	}
	switch by := g.Selector.By.(type) {
	case *messages.Selector_Key:
		return s + ":" + text(by.Key)
	case *messages.Selector_Prefix:
		return s + ":" + text(by.Prefix) + "*"
	case *messages.Selector_Range:
		return s + ":" + text(by.Range.Start) + ".." + text(by.Range.End)
	}
	return s
}

func (s *script) authStatus(*line) string {
	reply, bad := s.query(&messages.Query{Query: &messages.Query_AuthStatus{AuthStatus: &messages.AuthStatusRequest{}}})
	if bad != "" {
		return bad
	}
	a := reply.GetAuthStatus()
	out := fmt.Sprintf("enabled %v auth %d users %d roles %d", a.Enabled, a.AuthRevision, a.Users, a.Roles)
	if a.User != nil {
		out += " " + formatUser(a.User)
	}
	for _, g := range a.Grants {
		out += " " + formatGrant(g)
	}
	return out
}

func (s *script) users(l *line) string {
	reply, bad := s.query(&messages.Query{Query: &messages.Query_UserList{UserList: &messages.UserListRequest{
		Name: l.option("name", ""), Limit: uint32(l.number("limit", 0)), AfterName: l.option("after", ""),
	}}})
	if bad != "" {
		return bad
	}
	var all []string
	for _, u := range reply.GetUserList().Users {
		all = append(all, formatUser(u))
	}
	if reply.GetUserList().HasMore {
		all = append(all, "more")
	}
	return strings.Join(all, "; ")
}

func (s *script) roles(l *line) string {
	reply, bad := s.query(&messages.Query{Query: &messages.Query_RoleList{RoleList: &messages.RoleListRequest{
		Name: l.option("name", ""), Limit: uint32(l.number("limit", 0)), AfterName: l.option("after", ""),
	}}})
	if bad != "" {
		return bad
	}
	var all []string
	for _, r := range reply.GetRoleList().Roles {
		all = append(all, formatRole(r))
	}
	return strings.Join(all, "; ")
}

func (s *script) audit(l *line) string {
	reply, bad := s.query(&messages.Query{Query: &messages.Query_Audit{Audit: &messages.AuditRequest{
		AfterId: l.number("after", 0), Limit: uint32(l.number("limit", 0)), Principal: l.option("who", ""),
		Action: l.option("action", ""), NewestFirst: l.flags["newest_first"],
	}}})
	if bad != "" {
		return bad
	}
	var all []string
	for _, r := range reply.GetAudit().Records {
		one := fmt.Sprintf("%d %s %s %s", r.Id, text([]byte(r.Principal)), r.Action, r.Detail)
		if r.Code != messages.Code_CODE_OK {
			one += " " + messages.CodeName(r.Code)
		}
		all = append(all, one)
	}
	if reply.GetAudit().HasMore {
		all = append(all, "more")
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, "; ")
}

func (s *script) recordAudit(l *line) string {
	return formatResult(s.apply(l, &messages.Command{
		Audit: &messages.AuditContext{Action: l.word(0), Detail: l.word(1)},
		Op:    &messages.Command_RecordAudit{RecordAudit: &messages.RecordAudit{Code: messages.Code(l.number("code", 0))}},
	}), "")
}
