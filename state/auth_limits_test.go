package state_test

import (
	"fmt"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestAuthLimits: there are so many roles, roles of a user and grants of a role, and the
// next is refused with auth_limit, which changes nothing.
func TestAuthLimits(t *testing.T) {
	s := newScript()
	for i := range messages.RolesMax {
		s.must(t, fmt.Sprintf("auth add_role r%d", i), fmt.Sprintf("rev 0 auth %d role r%d", i+1, i))
	}
	s.must(t, "auth add_role more", fmt.Sprintf("error auth_limit field=name limit=%d", messages.RolesMax))

	s.do(t, "auth add_user ann")
	for i := range messages.RolesPerUserMax {
		s.do(t, fmt.Sprintf("auth grant_role ann r%d", i))
	}
	s.must(t, "auth grant_role ann r999", fmt.Sprintf("error auth_limit field=role limit=%d", messages.RolesPerUserMax))

	for i := range messages.GrantsPerRoleMax {
		s.do(t, fmt.Sprintf("auth grant r0 prefix=/%d/ read", i))
	}
	table := s.machine.Auth()
	s.must(t, "auth grant r0 prefix=/more/ read", fmt.Sprintf("error auth_limit field=grant limit=%d", messages.GrantsPerRoleMax))
	if s.machine.Auth() != table {
		t.Fatal("what was refused has changed the table")
	}
	s.check(t)
	s.must(t, "reload", "equal")
}
