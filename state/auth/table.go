package auth

import (
	"cmp"
	"slices"

	"github.com/concord-kv/concord/messages"
)

// Table is all of authorization at one place of the log. It never changes; what its
// methods return must not be changed.
type Table struct {
	settings *messages.AuthSettings
	users    []*entry // by name
	byID     []*entry
	roles    []*messages.Role // by name, without root
	restored bool             // from a snapshot's settings
}

type entry struct {
	user   *messages.User
	rights *Rights
}

// New returns the table of a cluster that has never heard of users.
func New() *Table {
	return &Table{settings: &messages.AuthSettings{NextUserId: 1}}
}

// Enabled reports whether anybody is asked for rights.
func (t *Table) Enabled() bool { return t.settings.GetEnabled() }

// Revision rises with each change.
func (t *Table) Revision() uint64 { return t.settings.GetRevision() }

// TokenKey signs tokens; empty before authorization was first enabled.
func (t *Table) TokenKey() []byte { return t.settings.GetTokenKey() }

// User returns a user with the hash of their password, nil if there is none.
func (t *Table) User(name string) *messages.User {
	if i, ok := t.find(name); ok {
		return t.users[i].user
	}
	return nil
}

// UserByID returns a user with the hash of their password, nil if there is none.
func (t *Table) UserByID(id uint64) *messages.User {
	if i, ok := t.findID(id); ok {
		return t.byID[i].user
	}
	return nil
}

// Rights returns what a user may do; nil, false for one who does not exist.
func (t *Table) Rights(userID uint64) (*Rights, bool) {
	if i, ok := t.findID(userID); ok {
		return t.byID[i].rights, true
	}
	return nil, false
}

// Role returns a role, nil if there is none.
func (t *Table) Role(name string) *messages.Role {
	if name == messages.RootRole {
		return rootRole
	}
	if i, ok := t.findRole(name); ok {
		return t.roles[i]
	}
	return nil
}

var rootRole = &messages.Role{Name: messages.RootRole, Grants: []*messages.Grant{{
	Selector: selectorOf(everything), Read: true, Write: true, Lease: true, Admin: true,
}}}

// Users returns how many there are; Roles counts the built in one.
func (t *Table) Users() int { return len(t.users) }

// Roles returns how many there are, the built in one included.
func (t *Table) Roles() int { return len(t.roles) + 1 }

// EachUser visits the users after a name, in order of their names.
func (t *Table) EachUser(after string, fn func(*messages.User, *Rights) bool) {
	i, found := t.find(after)
	if found {
		i++
	}
	for ; i < len(t.users); i++ {
		if !fn(t.users[i].user, t.users[i].rights) {
			return
		}
	}
}

// EachRole visits the roles after a name, in order of their names.
func (t *Table) EachRole(after string, fn func(*messages.Role) bool) {
	shown := after >= messages.RootRole
	for _, r := range t.roles {
		if !shown && r.Name > messages.RootRole {
			shown = true
			if !fn(rootRole) {
				return
			}
		}
		if r.Name > after && !fn(r) {
			return
		}
	}
	if !shown {
		fn(rootRole)
	}
}

// Shown is a user as answers have it: without the hash of the password.
func Shown(u *messages.User) *messages.User {
	return &messages.User{
		Name: u.GetName(), Id: u.GetId(), Roles: u.GetRoles(), CredentialRevision: u.GetCredentialRevision(),
		HasPassword: u.GetPasswordHash() != "",
	}
}

func (t *Table) find(name string) (int, bool) {
	return slices.BinarySearchFunc(t.users, name, func(e *entry, name string) int { return cmp.Compare(e.user.Name, name) })
}

func (t *Table) findID(id uint64) (int, bool) {
	return slices.BinarySearchFunc(t.byID, id, func(e *entry, id uint64) int { return cmp.Compare(e.user.Id, id) })
}

func (t *Table) findRole(name string) (int, bool) {
	return slices.BinarySearchFunc(t.roles, name, func(r *messages.Role, name string) int { return cmp.Compare(r.Name, name) })
}

// fork returns a table to change.
func (t *Table) fork() *Table {
	next := &Table{
		settings: t.copySettings(),
		users:    slices.Clone(t.users), byID: slices.Clone(t.byID), roles: slices.Clone(t.roles),
	}
	next.settings.Revision++
	return next
}

func (t *Table) copySettings() *messages.AuthSettings {
	s := t.settings
	return &messages.AuthSettings{Enabled: s.Enabled, Revision: s.Revision, NextUserId: s.NextUserId, TokenKey: s.TokenKey}
}

// NextAuditID is what the settings of a snapshot said of audit.
func (t *Table) NextAuditID() uint64 { return max(1, t.settings.GetNextAuditId()) }

// put sets a user, new or known.
func (t *Table) put(u *messages.User) {
	e := &entry{user: u, rights: rightsOf(u, t.Role)}
	if i, ok := t.find(u.Name); ok {
		t.users[i] = e
	} else {
		t.users = slices.Insert(t.users, i, e)
	}
	if i, ok := t.findID(u.Id); ok {
		t.byID[i] = e
	} else {
		t.byID = slices.Insert(t.byID, i, e)
	}
}

func (t *Table) drop(name string) {
	i, _ := t.find(name)
	id := t.users[i].user.Id
	t.users = slices.Delete(t.users, i, i+1)
	i, _ = t.findID(id)
	t.byID = slices.Delete(t.byID, i, i+1)
}

// putRole sets a role, and what its users may do then.
func (t *Table) putRole(r *messages.Role) {
	if i, ok := t.findRole(r.Name); ok {
		t.roles[i] = r
	} else {
		t.roles = slices.Insert(t.roles, i, r)
	}
	for i, e := range t.users {
		if slices.Contains(e.user.Roles, r.Name) {
			t.put(t.users[i].user)
		}
	}
}
