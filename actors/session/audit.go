package session

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/concord-kv/concord/messages"
)

// audited gives a command that changes who may do what, or how the cluster is run, what
// an audit record says of it, and what only a node may add.
func (c *core) audited(command *messages.Command) {
	var action, detail string
	switch op := command.Op.(type) {
	case *messages.Command_ChangeAuth:
		command.Op = &messages.Command_ChangeAuth{ChangeAuth: c.withKey(op.ChangeAuth)}
		action, detail = describeAuth(op.ChangeAuth)
	case *messages.Command_SetConfig:
		action, detail = "config_set", describeConfig(op.SetConfig)
	case *messages.Command_Compact:
		action, detail = "compact", fmt.Sprintf("revision %d", op.Compact.GetRevision())
	case *messages.Command_CreateIndex:
		action, detail = "index_create", op.CreateIndex.GetDefinition().GetName()
	case *messages.Command_DropIndex:
		action, detail = "index_drop", op.DropIndex.GetName()
	default:
		return
	}
	command.Principal = c.who.principal()
	command.Audit = &messages.AuditContext{
		AtUnixMs: c.cfg.Node.Now().WallMs, Address: c.peer.Address, Action: action, Detail: cut(detail),
	}
}

// withKey returns a copy with a new key where a change may need one: keys never come
// from clients.
func (c *core) withKey(a *messages.ChangeAuth) *messages.ChangeAuth {
	key := func() []byte {
		k := make([]byte, messages.TokenKeyBytes)
		if c.cfg.Random != nil {
			c.cfg.Random(k)
		} else {
			rand.Read(k) // never fails
		}
		return k
	}
	switch x := a.GetChange().(type) {
	case *messages.ChangeAuth_Enable:
		return &messages.ChangeAuth{Change: &messages.ChangeAuth_Enable{Enable: &messages.EnableAuth{TokenKey: key()}}}
	case *messages.ChangeAuth_RevokeTokens:
		r := &messages.RevokeTokens{User: x.RevokeTokens.GetUser()}
		if r.User == "" {
			r.TokenKey = key()
		}
		return &messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeTokens{RevokeTokens: r}}
	}
	return a
}

// describeAuth says what is changed. No hash of a password is in it.
func describeAuth(a *messages.ChangeAuth) (action, detail string) {
	switch x := a.GetChange().(type) {
	case *messages.ChangeAuth_Enable:
		return "auth_enable", ""
	case *messages.ChangeAuth_Disable:
		return "auth_disable", ""
	case *messages.ChangeAuth_AddUser:
		return "user_add", x.AddUser.GetName() + strings.Join(append([]string{""}, x.AddUser.GetRoles()...), " --role ")
	case *messages.ChangeAuth_DeleteUser:
		return "user_delete", x.DeleteUser.GetName()
	case *messages.ChangeAuth_SetPassword:
		return "user_password", x.SetPassword.GetName()
	case *messages.ChangeAuth_GrantRole:
		return "user_grant", x.GrantRole.GetUser() + " " + x.GrantRole.GetRole()
	case *messages.ChangeAuth_RevokeRole:
		return "user_revoke", x.RevokeRole.GetUser() + " " + x.RevokeRole.GetRole()
	case *messages.ChangeAuth_AddRole:
		return "role_add", x.AddRole.GetName()
	case *messages.ChangeAuth_DeleteRole:
		return "role_delete", x.DeleteRole.GetName()
	case *messages.ChangeAuth_GrantRights:
		return "role_grant", x.GrantRights.GetRole() + " " + describeGrant(x.GrantRights.GetGrant())
	case *messages.ChangeAuth_RevokeRights:
		return "role_revoke", x.RevokeRights.GetRole() + " " + describeGrant(x.RevokeRights.GetGrant())
	case *messages.ChangeAuth_RevokeTokens:
		return "token_revoke", x.RevokeTokens.GetUser()
	}
	return "auth", ""
}

func describeGrant(g *messages.Grant) string {
	var rights []string
	for _, r := range []struct {
		on   bool
		name string
	}{{g.GetRead(), "read"}, {g.GetWrite(), "write"}, {g.GetLease(), "lease"}, {g.GetAdmin(), "admin"}} {
		if r.on {
			rights = append(rights, r.name)
		}
	}
	what := strings.Join(rights, ",")
	switch by := g.GetSelector().GetBy().(type) {
	case *messages.Selector_Key:
		return fmt.Sprintf("%s --key %q", what, by.Key)
	case *messages.Selector_Prefix:
		return fmt.Sprintf("%s --prefix %q", what, by.Prefix)
	case *messages.Selector_Range:
		return fmt.Sprintf("%s --range %q %q", what, by.Range.GetStart(), by.Range.GetEnd())
	}
	return what
}

// describeConfig has the names and the new values, sorted.
func describeConfig(s *messages.SetConfig) string {
	var parts []string
	m := s.GetConfig().ProtoReflect()
	for _, name := range s.GetFields() {
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		switch {
		case fd == nil:
			parts = append(parts, name)
		case fd.IsList():
			var prefixes []string
			for _, p := range s.GetConfig().GetProtectedPrefixes() {
				prefixes = append(prefixes, fmt.Sprintf("%q", p.GetPrefix()))
			}
			parts = append(parts, name+"="+strings.Join(prefixes, ","))
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", name, m.Get(fd).Interface()))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// cut keeps a text within what an audit record may hold.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= messages.AuditDetailBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:messages.AuditDetailBytesMax-3], "") + "..."
}
