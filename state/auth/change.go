package auth

import (
	"cmp"
	"slices"

	"github.com/concord-kv/concord/messages"
)

// Change returns the table after a change, and the answer. principal is who asks. The
// change is valid by its form. A refusal leaves t as it is, like everything does: a
// change that changes nothing returns t itself.
func (t *Table) Change(c *messages.ChangeAuth, principal string) (*Table, *messages.AuthResult, *messages.Error) {
	next := t.fork()
	out := &messages.AuthResult{}
	err := next.change(c, principal, out)
	if err == errSame {
		next, err = t, nil
	}
	if err == nil && next != t && next.Enabled() && !next.administered() {
		err = messages.NewError(messages.Code_CODE_NO_ADMINISTRATOR, "nobody could administer the cluster any more: disable authorization, or make another administrator first")
	}
	if err != nil {
		return t, nil, err
	}
	out.AuthRevision, out.Enabled = next.Revision(), next.Enabled()
	return next, out, nil
}

// errSame says that there is nothing to change.
var errSame = messages.NewError(messages.Code_CODE_OK, "")

func (t *Table) change(c *messages.ChangeAuth, principal string, out *messages.AuthResult) *messages.Error {
	switch x := c.GetChange().(type) {
	case *messages.ChangeAuth_Enable:
		return t.enable(x.Enable, principal)
	case *messages.ChangeAuth_Disable:
		if !t.settings.Enabled {
			return errSame
		}
		t.settings.Enabled = false
		return nil
	case *messages.ChangeAuth_AddUser:
		return t.addUser(x.AddUser, out)
	case *messages.ChangeAuth_DeleteUser:
		if t.User(x.DeleteUser.GetName()) == nil {
			return userNotFound("name", x.DeleteUser.GetName())
		}
		t.drop(x.DeleteUser.GetName())
		return nil
	case *messages.ChangeAuth_SetPassword:
		return t.changeUser("name", x.SetPassword.GetName(), out, func(u *messages.User) *messages.Error {
			u.PasswordHash, u.CredentialRevision = x.SetPassword.GetPasswordHash(), t.settings.Revision
			return nil
		})
	case *messages.ChangeAuth_GrantRole:
		return t.changeUser("user", x.GrantRole.GetUser(), out, func(u *messages.User) *messages.Error {
			return t.giveRoles(u, x.GrantRole.GetRole())
		})
	case *messages.ChangeAuth_RevokeRole:
		return t.changeUser("user", x.RevokeRole.GetUser(), out, func(u *messages.User) *messages.Error {
			i, has := slices.BinarySearch(u.Roles, x.RevokeRole.GetRole())
			if !has {
				return roleNotFound("role", x.RevokeRole.GetRole())
			}
			u.Roles = slices.Delete(slices.Clone(u.Roles), i, i+1)
			return nil
		})
	case *messages.ChangeAuth_RevokeTokens:
		return t.revokeTokens(x.RevokeTokens, out)
	}
	return t.changeRole(c, out)
}

func (t *Table) changeRole(c *messages.ChangeAuth, out *messages.AuthResult) *messages.Error {
	switch x := c.GetChange().(type) {
	case *messages.ChangeAuth_AddRole:
		name := x.AddRole.GetName()
		if t.Role(name) != nil {
			return messages.NewError(messages.Code_CODE_ROLE_EXISTS, "role %q exists", name).WithField("name")
		}
		if len(t.roles) >= messages.RolesMax {
			return limit("name", "roles", messages.RolesMax)
		}
		out.Role = &messages.Role{Name: name}
		t.putRole(out.Role)
		return nil
	case *messages.ChangeAuth_DeleteRole:
		return t.deleteRole(x.DeleteRole.GetName())
	case *messages.ChangeAuth_GrantRights:
		return t.editRole(x.GrantRights.GetRole(), out, func(r *messages.Role) *messages.Error {
			return giveRights(r, x.GrantRights.GetGrant())
		})
	case *messages.ChangeAuth_RevokeRights:
		return t.editRole(x.RevokeRights.GetRole(), out, func(r *messages.Role) *messages.Error {
			return takeRights(r, x.RevokeRights.GetGrant())
		})
	}
	return messages.NewError(messages.Code_CODE_UNSUPPORTED, "unknown change").WithField("change")
}

// enable wants an administrator who can get in: with a password, or by the certificate
// that asks.
func (t *Table) enable(e *messages.EnableAuth, principal string) *messages.Error {
	if t.settings.Enabled {
		return errSame
	}
	ready := slices.ContainsFunc(t.users, func(u *entry) bool {
		return u.rights.admin && (u.user.PasswordHash != "" || principal != "" && u.user.Name == principal)
	})
	if !ready {
		return messages.NewError(messages.Code_CODE_NO_ADMINISTRATOR,
			"nobody could get in: first make a user with the role %s and a password, or one of the name in your certificate", messages.RootRole)
	}
	if len(t.settings.TokenKey) == 0 {
		if len(e.GetTokenKey()) != messages.TokenKeyBytes {
			return messages.InvalidField("token_key", "missing")
		}
		t.settings.TokenKey = slices.Clone(e.GetTokenKey())
	}
	t.settings.Enabled = true
	return nil
}

// administered reports whether somebody has the right admin.
func (t *Table) administered() bool {
	return slices.ContainsFunc(t.users, func(e *entry) bool { return e.rights.admin })
}

func (t *Table) addUser(a *messages.AddUser, out *messages.AuthResult) *messages.Error {
	if t.User(a.GetName()) != nil {
		return messages.NewError(messages.Code_CODE_USER_EXISTS, "user %q exists", a.GetName()).WithField("name")
	}
	if len(t.users) >= messages.UsersMax {
		return limit("name", "users", messages.UsersMax)
	}
	u := &messages.User{
		Name: a.GetName(), Id: t.settings.NextUserId, PasswordHash: a.GetPasswordHash(), CredentialRevision: t.settings.Revision,
	}
	if err := t.giveRoles(u, a.GetRoles()...); err != nil && err != errSame {
		return err
	}
	t.settings.NextUserId++
	t.put(u)
	out.User = Shown(u)
	return nil
}

// changeUser puts a changed copy of a user.
func (t *Table) changeUser(field, name string, out *messages.AuthResult, edit func(*messages.User) *messages.Error) *messages.Error {
	old := t.User(name)
	if old == nil {
		return userNotFound(field, name)
	}
	u := &messages.User{
		Name: old.Name, Id: old.Id, PasswordHash: old.PasswordHash, Roles: old.Roles, CredentialRevision: old.CredentialRevision,
	}
	err := edit(u)
	out.User = Shown(u)
	if err != nil {
		return err
	}
	t.put(u)
	return nil
}

// giveRoles adds roles to u, which is not in the table yet.
func (t *Table) giveRoles(u *messages.User, names ...string) *messages.Error {
	roles := slices.Clone(u.Roles)
	for _, name := range names {
		if t.Role(name) == nil {
			return roleNotFound("role", name)
		}
		if i, has := slices.BinarySearch(roles, name); !has {
			roles = slices.Insert(roles, i, name)
		}
	}
	if len(roles) == len(u.Roles) {
		return errSame
	}
	if len(roles) > messages.RolesPerUserMax {
		return limit("role", "roles of a user", messages.RolesPerUserMax)
	}
	u.Roles = roles
	return nil
}

func (t *Table) deleteRole(name string) *messages.Error {
	i, ok := t.findRole(name)
	if !ok {
		return roleNotFound("name", name)
	}
	t.roles = slices.Delete(t.roles, i, i+1)
	for _, e := range slices.Clone(t.users) {
		if i, has := slices.BinarySearch(e.user.Roles, name); has {
			u := Shown(e.user)
			u.PasswordHash, u.HasPassword = e.user.PasswordHash, false
			u.Roles = slices.Delete(slices.Clone(u.Roles), i, i+1)
			t.put(u)
		}
	}
	return nil
}

func (t *Table) editRole(name string, out *messages.AuthResult, edit func(*messages.Role) *messages.Error) *messages.Error {
	old := t.Role(name)
	if old == nil {
		return roleNotFound("role", name)
	}
	r := &messages.Role{Name: name, Grants: slices.Clone(old.Grants)}
	err := edit(r)
	out.Role = r
	if err != nil {
		return err
	}
	t.putRole(r)
	return nil
}

func bySelector(g *messages.Grant, s span) int {
	of := spanOf(g.GetSelector())
	return cmp.Or(cmp.Compare(of.lo, s.lo), cmp.Compare(of.hi, s.hi))
}

// giveRights adds to the grant of the same keys, or adds one. Selectors that name the
// same keys are one.
func giveRights(r *messages.Role, g *messages.Grant) *messages.Error {
	i, has := slices.BinarySearchFunc(r.Grants, spanOf(g.GetSelector()), bySelector)
	if !has {
		if len(r.Grants) >= messages.GrantsPerRoleMax {
			return limit("grant", "grants of a role", messages.GrantsPerRoleMax)
		}
		r.Grants = slices.Insert(r.Grants, i, &messages.Grant{
			Selector: g.GetSelector(), Read: g.GetRead(), Write: g.GetWrite(), Lease: g.GetLease(), Admin: g.GetAdmin(),
		})
		return nil
	}
	old := r.Grants[i]
	sum := &messages.Grant{
		Selector: old.Selector, Read: old.Read || g.GetRead(), Write: old.Write || g.GetWrite(),
		Lease: old.Lease || g.GetLease(), Admin: old.Admin || g.GetAdmin(),
	}
	if sum.Read == old.Read && sum.Write == old.Write && sum.Lease == old.Lease && sum.Admin == old.Admin {
		return errSame
	}
	r.Grants[i] = sum
	return nil
}

// takeRights takes rights from the grant of exactly these keys; without any it takes
// the grant.
func takeRights(r *messages.Role, g *messages.Grant) *messages.Error {
	i, has := slices.BinarySearchFunc(r.Grants, spanOf(g.GetSelector()), bySelector)
	if !has {
		return messages.NewError(messages.Code_CODE_ROLE_NOT_FOUND, "role %q has no grant of exactly these keys", r.Name).WithField("grant.selector")
	}
	old := r.Grants[i]
	all := !g.GetRead() && !g.GetWrite() && !g.GetLease() && !g.GetAdmin()
	left := &messages.Grant{
		Selector: old.Selector, Read: old.Read && !g.GetRead(), Write: old.Write && !g.GetWrite(),
		Lease: old.Lease && !g.GetLease(), Admin: old.Admin && !g.GetAdmin(),
	}
	if all || !left.Read && !left.Write && !left.Lease && !left.Admin {
		r.Grants = slices.Delete(r.Grants, i, i+1)
		return nil
	}
	r.Grants[i] = left
	return nil
}

func (t *Table) revokeTokens(r *messages.RevokeTokens, out *messages.AuthResult) *messages.Error {
	if r.GetUser() != "" {
		return t.changeUser("user", r.GetUser(), out, func(u *messages.User) *messages.Error {
			u.CredentialRevision = t.settings.Revision
			return nil
		})
	}
	if len(r.GetTokenKey()) != messages.TokenKeyBytes {
		return messages.InvalidField("token_key", "missing")
	}
	t.settings.TokenKey = slices.Clone(r.GetTokenKey())
	return nil
}

func userNotFound(field, name string) *messages.Error {
	return messages.NewError(messages.Code_CODE_USER_NOT_FOUND, "no user is called %q", name).WithField(field)
}

func roleNotFound(field, name string) *messages.Error {
	return messages.NewError(messages.Code_CODE_ROLE_NOT_FOUND, "no role is called %q, or the user does not have it", name).WithField(field)
}

func limit(field, what string, most uint64) *messages.Error {
	return messages.NewError(messages.Code_CODE_AUTH_LIMIT, "there are %d %s already", most, what).WithField(field).WithLimit(most)
}
