package auth

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// Empty reports that there is nothing to save: nobody has ever changed anything.
func (t *Table) Empty() bool { return t.settings.Revision == 0 }

// EachRow visits the rows of a snapshot, in their order, until fn returns false. The
// settings have room for the id of the next audit record.
func (t *Table) EachRow(nextAuditID uint64, fn func(*messages.SnapshotAuth) bool) {
	if t.Empty() && nextAuditID <= 1 {
		return
	}
	settings := t.copySettings()
	settings.NextAuditId = nextAuditID
	if !fn(&messages.SnapshotAuth{Row: &messages.SnapshotAuth_Settings{Settings: settings}}) {
		return
	}
	for _, r := range t.roles {
		if !fn(&messages.SnapshotAuth{Row: &messages.SnapshotAuth_Role{Role: r}}) {
			return
		}
	}
	for _, e := range t.users {
		if !fn(&messages.SnapshotAuth{Row: &messages.SnapshotAuth_User{User: e.user}}) {
			return
		}
	}
}

// Restore adds a row of a snapshot. It changes t, which nobody else may have yet, and
// refuses what cannot have been saved.
func (t *Table) Restore(row *messages.SnapshotAuth) error {
	switch r := row.GetRow().(type) {
	case *messages.SnapshotAuth_Settings:
		if t.restored || len(t.users)+len(t.roles) > 0 {
			return fmt.Errorf("settings of authorization come twice")
		}
		if r.Settings.GetNextUserId() == 0 || r.Settings.GetNextAuditId() == 0 {
			return fmt.Errorf("settings of authorization without next ids")
		}
		t.settings, t.restored = r.Settings, true
		return nil
	case *messages.SnapshotAuth_Role:
		name := r.Role.GetName()
		if len(t.users) > 0 || name == "" || t.Role(name) != nil {
			return fmt.Errorf("role %q is out of order", name)
		}
		if n := len(t.roles); n > 0 && t.roles[n-1].Name >= name {
			return fmt.Errorf("role %q is out of order", name)
		}
		t.roles = append(t.roles, r.Role)
		return nil
	case *messages.SnapshotAuth_User:
		u := r.User
		if n := len(t.users); n > 0 && t.users[n-1].user.Name >= u.GetName() || u.GetName() == "" {
			return fmt.Errorf("user %q is out of order", u.GetName())
		}
		if _, twice := t.findID(u.GetId()); twice || u.GetId() == 0 || u.GetId() >= t.settings.NextUserId {
			return fmt.Errorf("user %q has id %d, next is %d", u.GetName(), u.GetId(), t.settings.NextUserId)
		}
		for _, role := range u.GetRoles() {
			if t.Role(role) == nil {
				return fmt.Errorf("user %q has the role %q, which does not exist", u.GetName(), role)
			}
		}
		t.put(u)
		return nil
	}
	return fmt.Errorf("a row of authorization of no known kind")
}
