package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// TestAuthModel runs random changes of users, roles and grants beside a model that
// knows no ranges: it asks of each key of a small universe whether some grant of some
// role has it. What the machine allows and refuses, of writes, reads and lists, must be
// what the model says, also after a snapshot. The universe has every place where a gap
// between two grants could begin, so that it speaks for all keys.
func TestAuthModel(t *testing.T) { rapid.Check(t, authSequence) }

const (
	modelRead = 1 << iota
	modelWrite
	modelLease
	modelAdmin
)

type modelGrant struct {
	sel    *messages.Selector
	rights int
}

type modelUser struct {
	id    uint64
	roles []string
}

// authModel is users and roles as maps and lists.
type authModel struct {
	t       *rapid.T
	s       *script
	enabled bool
	users   map[string]*modelUser
	roles   map[string][]modelGrant
	next    uint64
}

var modelNames = []string{"u", "v", "w"}

// modelBounds are the strings that selectors are made of.
var modelBounds = []string{"a", "b", "aa", "ab", "ba", "bb"}

// modelUniverse has each bound, each end of a prefix, and what comes right after each.
var modelUniverse = func() []string {
	var all []string
	for _, k := range append(slices.Clone(modelBounds), "c", "ac", "bc", "\x01", "zz") {
		all = append(all, k, k+"\x00")
	}
	slices.Sort(all)
	return slices.Compact(all)
}()

func authSequence(t *rapid.T) {
	m := &authModel{t: t, s: newScript(), users: map[string]*modelUser{}, roles: map[string][]modelGrant{}, next: 1}
	m.change("", &messages.ChangeAuth{Change: &messages.ChangeAuth_AddUser{AddUser: &messages.AddUser{
		Name: "root", PasswordHash: testHash, Roles: []string{messages.RootRole},
	}}}, "")
	m.users["root"] = &modelUser{id: m.next, roles: []string{messages.RootRole}}
	m.next++
	m.change("", &messages.ChangeAuth{Change: &messages.ChangeAuth_Enable{Enable: &messages.EnableAuth{TokenKey: make([]byte, 32)}}}, "")
	m.enabled = true
	for range 40 {
		m.step()
		for range 4 {
			m.attempt()
		}
		if d := m.s.machine.Digest(); d != m.s.machine.FullDigest() {
			t.Fatalf("digest %x, full %x", d, m.s.machine.FullDigest())
		}
		if m.pick(8) == 0 {
			m.reload()
		}
	}
}

func (m *authModel) pick(n int) int { return rapid.IntRange(0, n-1).Draw(m.t, "") }

func (m *authModel) one(list []string) string { return list[m.pick(len(list))] }

func (m *authModel) selector() *messages.Selector {
	a, b := m.one(modelBounds), m.one(modelBounds)
	switch m.pick(5) {
	case 0:
		return &messages.Selector{By: &messages.Selector_Key{Key: []byte(a)}}
	case 1:
		return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(a)}}
	case 2:
		return &messages.Selector{By: &messages.Selector_Prefix{}}
	case 3:
		return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte(a)}}}
	}
	if a == b {
		b = "c"
	} else if a > b {
		a, b = b, a
	}
	return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte(a), End: []byte(b)}}}
}

// keys are those of the universe that a selector names; that of a key alone is exact.
func keysOf(s *messages.Selector) (keys []string) {
	for _, k := range modelUniverse {
		if selects(s, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func selects(s *messages.Selector, key string) bool {
	switch by := s.By.(type) {
	case *messages.Selector_Key:
		return key == string(by.Key)
	case *messages.Selector_Prefix:
		return strings.HasPrefix(key, string(by.Prefix))
	case *messages.Selector_Range:
		return key >= string(by.Range.Start) && (len(by.Range.End) == 0 || key < string(by.Range.End))
	}
	return false
}

// may reports whether a user has a right over every key of the selector.
func (m *authModel) may(user string, right int, s *messages.Selector) bool {
	u := m.users[user]
	if u == nil {
		return false
	}
	if slices.Contains(u.roles, messages.RootRole) {
		return true
	}
	for _, key := range keysOf(s) {
		ok := false
		for _, role := range u.roles {
			for _, g := range m.roles[role] {
				ok = ok || g.rights&right != 0 && selects(g.sel, key)
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

func (m *authModel) admin(user string) bool {
	u := m.users[user]
	if u == nil {
		return false
	}
	for _, role := range u.roles {
		if role == messages.RootRole || slices.ContainsFunc(m.roles[role], func(g modelGrant) bool { return g.rights&modelAdmin != 0 }) {
			return true
		}
	}
	return false
}

// change applies a change as somebody and compares the code of the refusal.
func (m *authModel) change(as string, c *messages.ChangeAuth, want string) {
	m.t.Helper()
	r := m.apply(as, &messages.Command{Op: &messages.Command_ChangeAuth{ChangeAuth: c}})
	got := ""
	if r.Error != nil {
		got = messages.CodeName(r.Error.Code)
	}
	if got != want {
		m.t.Fatalf("%v as %q: %q, want %q", c, as, got, want)
	}
}

func (m *authModel) apply(as string, c *messages.Command) *messages.Result {
	m.s.as = as
	return m.s.apply(parseWords("x"), c)
}

// step makes one random change, as root, and does the same to the model.
func (m *authModel) step() {
	role, user := m.one([]string{"r", "s"}), m.one(modelNames)
	as := "root"
	if m.pick(6) == 0 {
		as = m.one(modelNames)
	}
	allowed := func(want string, apply func()) string {
		if m.users[as] == nil {
			return "unauthenticated"
		}
		if !m.admin(as) {
			return "permission_denied"
		}
		if want == "" && apply != nil {
			apply()
		}
		return want
	}
	pick := func(bad bool, code string) string {
		if bad {
			return code
		}
		return ""
	}
	_, hasRole := m.roles[role]
	u := m.users[user]
	switch m.pick(7) {
	case 0:
		m.change(as, &messages.ChangeAuth{Change: &messages.ChangeAuth_AddRole{AddRole: &messages.AddRole{Name: role}}},
			allowed(pick(hasRole, "role_exists"), func() { m.roles[role] = nil }))
	case 1:
		m.change(as, &messages.ChangeAuth{Change: &messages.ChangeAuth_DeleteRole{DeleteRole: &messages.DeleteRole{Name: role}}},
			allowed(pick(!hasRole, "role_not_found"), func() {
				delete(m.roles, role)
				for _, u := range m.users {
					u.roles = slices.DeleteFunc(u.roles, func(r string) bool { return r == role })
				}
			}))
	case 2:
		m.change(as, &messages.ChangeAuth{Change: &messages.ChangeAuth_AddUser{AddUser: &messages.AddUser{Name: user}}},
			allowed(pick(u != nil, "user_exists"), func() {
				m.users[user] = &modelUser{id: m.next}
				m.next++
			}))
	case 3:
		if m.pick(3) > 0 {
			return
		}
		m.change(as, &messages.ChangeAuth{Change: &messages.ChangeAuth_DeleteUser{DeleteUser: &messages.DeleteUser{Name: user}}},
			allowed(pick(u == nil, "user_not_found"), func() { delete(m.users, user) }))
	case 4:
		want := pick(u == nil, "user_not_found")
		if want == "" {
			want = pick(!hasRole, "role_not_found")
		}
		m.change(as, &messages.ChangeAuth{Change: &messages.ChangeAuth_GrantRole{GrantRole: &messages.GrantRole{User: user, Role: role}}},
			allowed(want, func() {
				if !slices.Contains(u.roles, role) {
					u.roles = append(u.roles, role)
				}
			}))
	case 5:
		g := modelGrant{m.selector(), 1 + m.pick(7)}
		if m.pick(8) == 0 {
			g = modelGrant{&messages.Selector{By: &messages.Selector_Prefix{}}, modelAdmin}
		}
		m.change(as, &messages.ChangeAuth{Change: &messages.ChangeAuth_GrantRights{GrantRights: &messages.GrantRights{Role: role, Grant: g.proto()}}},
			allowed(pick(!hasRole, "role_not_found"), func() { m.give(role, g) }))
	case 6:
		g := modelGrant{m.selector(), m.pick(8)}
		want := pick(!hasRole, "role_not_found")
		if want == "" {
			want = pick(m.find(role, g.sel) < 0, "role_not_found")
		}
		m.change(as, &messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeRights{RevokeRights: &messages.RevokeRights{Role: role, Grant: g.proto()}}},
			allowed(want, func() { m.take(role, g) }))
	}
}

func (g modelGrant) proto() *messages.Grant {
	return &messages.Grant{
		Selector: g.sel, Read: g.rights&modelRead != 0, Write: g.rights&modelWrite != 0,
		Lease: g.rights&modelLease != 0, Admin: g.rights&modelAdmin != 0,
	}
}

// find returns the grant of exactly the same keys.
func (m *authModel) find(role string, s *messages.Selector) int {
	return slices.IndexFunc(m.roles[role], func(g modelGrant) bool {
		return fmt.Sprint(keysOf(g.sel)) == fmt.Sprint(keysOf(s)) && open(g.sel) == open(s)
	})
}

// open says how a selector ends: two that differ only beyond the universe differ.
func open(s *messages.Selector) string {
	switch by := s.By.(type) {
	case *messages.Selector_Prefix:
		if len(by.Prefix) == 0 {
			return "all"
		}
	case *messages.Selector_Range:
		if len(by.Range.End) == 0 {
			return "end"
		}
	}
	return ""
}

func (m *authModel) give(role string, g modelGrant) {
	if i := m.find(role, g.sel); i >= 0 {
		m.roles[role][i].rights |= g.rights
		return
	}
	m.roles[role] = append(m.roles[role], g)
}

func (m *authModel) take(role string, g modelGrant) {
	i := m.find(role, g.sel)
	left := m.roles[role][i].rights &^ g.rights
	if g.rights == 0 || left == 0 {
		m.roles[role] = slices.Delete(m.roles[role], i, i+1)
		return
	}
	m.roles[role][i].rights = left
}

// attempt has somebody do something and compares whether it is allowed.
func (m *authModel) attempt() {
	m.t.Helper()
	as := m.one(append([]string{"root", "ghost"}, modelNames...))
	key := m.one(modelUniverse)
	one := &messages.Selector{By: &messages.Selector_Key{Key: []byte(key)}}
	sel := m.selector()
	var c *messages.Command
	var allowed bool
	switch m.pick(4) {
	case 0:
		prev := m.pick(2) == 0
		c = &messages.Command{Op: &messages.Command_Put{Put: &messages.Put{Key: []byte(key), Value: []byte("v"), PrevKv: prev}}}
		allowed = m.may(as, modelWrite, one) && (!prev || m.may(as, modelRead, one))
	case 1:
		prev := m.pick(2) == 0
		c = &messages.Command{Op: &messages.Command_Delete{Delete: &messages.Delete{Selector: sel, PrevKv: prev}}}
		allowed = m.may(as, modelWrite, sel) && (!prev || m.may(as, modelRead, sel))
	case 2:
		c = &messages.Command{Op: &messages.Command_Txn{Txn: &messages.Txn{Failure: []*messages.TxnOp{
			{Op: &messages.TxnOp_Get{Get: &messages.TxnGet{Selector: sel, Limit: 10}}},
			{Op: &messages.TxnOp_Put{Put: &messages.Put{Key: []byte(key)}}},
		}}}}
		allowed = m.may(as, modelRead, sel) && m.may(as, modelWrite, one)
	default:
		m.s.as = as
		if as == "ghost" || m.users[as] == nil {
			return
		}
		_, err := m.s.machine.View().QueryAs(m.s.rights(), &messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{Selector: sel}}}, state.Now{})
		m.same(as, sel.String(), messages.CodeOf(asError(err)), m.may(as, modelRead, sel))
		return
	}
	r := m.apply(as, c)
	m.same(as, c.String(), r.GetError().GetCode(), allowed)
}

func (m *authModel) same(as, what string, code messages.Code, allowed bool) {
	m.t.Helper()
	want := messages.Code_CODE_OK
	switch {
	case m.users[as] == nil:
		want = messages.Code_CODE_UNAUTHENTICATED
	case !allowed:
		want = messages.Code_CODE_PERMISSION_DENIED
	}
	if code != want {
		m.t.Fatalf("%s as %q (roles %v of %v): %v, want %v", what, as, m.users[as], m.roles, code, want)
	}
}

func (m *authModel) reload() {
	m.t.Helper()
	var file bytes.Buffer
	if err := m.s.machine.View().Save(&file); err != nil {
		m.t.Fatal(err)
	}
	loaded, err := state.Load(&file)
	if err != nil {
		m.t.Fatal(err)
	}
	if loaded.FullDigest() != m.s.machine.Digest() {
		m.t.Fatal("another digest after a snapshot")
	}
	m.s.machine = loaded
}

// asError makes a nil *Error a nil error.
func asError(err *messages.Error) error {
	if err == nil {
		return nil
	}
	return err
}
