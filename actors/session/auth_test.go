package session

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/cluster/credential"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
)

// guarded is a desk whose node has users: root, ann, who may read and write a/, and bob,
// who may read it.
type guarded struct {
	*desk
	hash string
}

const annsPassword = "ann's password"

func newGuarded(t *testing.T) *guarded {
	hash, err := credential.HashPassword(annsPassword, messages.PasswordRoundsMin)
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{desk: rawDesk(t, Limits{}), hash: hash}
	g.node.auth = auth.New()
	g.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_AddUser{AddUser: &messages.AddUser{Name: "root", PasswordHash: hash, Roles: []string{"root"}}}})
	for _, role := range []string{"writer", "reader"} {
		g.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_AddRole{AddRole: &messages.AddRole{Name: role}}})
		g.change(g.grant(role, "a/", &messages.Grant{Read: true, Write: role == "writer", Lease: role == "writer"}))
	}
	g.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_AddUser{AddUser: &messages.AddUser{Name: "ann", PasswordHash: hash, Roles: []string{"writer"}}}})
	g.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_AddUser{AddUser: &messages.AddUser{Name: "bob", Roles: []string{"reader"}}}})
	g.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_Enable{Enable: &messages.EnableAuth{TokenKey: bytes.Repeat([]byte{1}, 32)}}})
	return g
}

// change changes who may do what, as apply would tell the node.
func (g *guarded) change(c *messages.ChangeAuth) {
	g.t.Helper()
	next, _, err := g.node.auth.Change(c, "root")
	if err != nil {
		g.t.Fatal(err)
	}
	g.node.auth = next
}

func (g *guarded) grant(role, prefix string, rights *messages.Grant) *messages.ChangeAuth {
	rights.Selector = prefixOf(prefix)
	return &messages.ChangeAuth{Change: &messages.ChangeAuth_GrantRights{GrantRights: &messages.GrantRights{Role: role, Grant: rights}}}
}

func (g *guarded) revoke(role, prefix string, rights *messages.Grant) {
	rights.Selector = prefixOf(prefix)
	g.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeRights{RevokeRights: &messages.RevokeRights{Role: role, Grant: rights}}})
}

func prefixOf(p string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(p)}}
}

// hello says it with a certificate of this name, and credentials.
func (g *guarded) hello(certificate string, c *messages.Credentials) {
	g.core.who.takeCertificate(transport.Peer{Kind: transport.KindGRPC, Name: certificate})
	g.say(&messages.ClientMessage{Message: &messages.ClientMessage_Hello{Hello: &messages.ClientHello{Protocol: 1, ClientEpoch: 42, Credentials: c}}})
}

func (g *guarded) welcome() *messages.ServerHello {
	g.t.Helper()
	h := g.take().GetHello()
	if h == nil {
		g.t.Fatalf("no hello: %v, closed %v", g.sent, g.reason)
	}
	return h
}

func (g *guarded) token(user string, lifeMs int64) string {
	u := g.node.auth.User(user)
	token, err := credential.SignToken(g.node.auth.TokenKey(), &messages.TokenClaims{
		ClusterId: []byte("cluster"), Incarnation: 3, User: user, UserId: u.GetId(), CredentialRevision: u.GetCredentialRevision(),
		ExpiresUnixMs: g.node.Now().WallMs + lifeMs,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return token
}

func (g *guarded) wantClosed(code messages.Code) {
	g.t.Helper()
	if !g.closing || g.reason.GetCode() != code {
		g.t.Fatalf("closed %v with %v, want %v", g.closing, g.reason, code)
	}
}

func TestNobodyIsRefusedAtTheDoor(t *testing.T) {
	for name, c := range map[string]*messages.Credentials{
		"nothing":             nil,
		"a made up token":     {Token: "cct1.AAAA.AAAA"},
		"two kinds":           {Token: "x", User: "ann", Password: annsPassword},
		"a password alone":    {Password: annsPassword},
		"an empty credential": {},
		"a recovery secret":   {Recovery: []byte("guess")},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			g.hello("", c)
			if g.reason.GetCode() != messages.Code_CODE_UNAUTHENTICATED && g.reason.GetCode() != messages.Code_CODE_INVALID_ARGUMENT {
				t.Fatalf("closed with %v", g.reason)
			}
		})
	}
	g := newGuarded(t)
	g.hello("nobody", nil)
	g.wantClosed(messages.Code_CODE_UNAUTHENTICATED)
}

func TestCertificateIsTheUserOfItsName(t *testing.T) {
	g := newGuarded(t)
	g.hello("ann", nil)
	if h := g.welcome(); h.User != "ann" || h.CredentialsLeftMs != 0 {
		t.Fatal(h)
	}
	ok := g.ask(put("a/1"))
	if c := g.proposed[0].Commands[0]; c.Principal != "ann" || c.UserId != g.node.auth.User("ann").Id || c.Trusted {
		t.Fatalf("proposed %v", c)
	}
	g.answer()
	g.reply(ok)
	g.refused(g.ask(put("b/1")), messages.Code_CODE_PERMISSION_DENIED, "key")
	g.refused(g.ask(get("b/1", messages.Consistency_CONSISTENCY_LINEARIZABLE, 0)), messages.Code_CODE_PERMISSION_DENIED, "key")
	g.refused(g.ask(&messages.Operation{Operation: &messages.Operation_Admin{Admin: &messages.AdminRequest{
		Request: &messages.AdminRequest_RemoveMember{RemoveMember: &messages.RemoveMemberRequest{ReplicaId: 2}},
	}}}), messages.Code_CODE_PERMISSION_DENIED, "admin")
	if len(g.proposed) > 0 || len(g.barriers) > 0 {
		t.Fatal("what was refused went on")
	}
}

func TestPassword(t *testing.T) {
	g := newGuarded(t)
	g.hello("", &messages.Credentials{User: "ann", Password: annsPassword})
	g.quiet()
	if len(g.passwords) != 1 || g.passwords[0].user.GetName() != "ann" {
		t.Fatalf("asked %v", g.passwords)
	}
	g.core.passwordChecked(&passwordChecked{user: g.passwords[0].user})
	g.run()
	if h := g.welcome(); h.User != "ann" {
		t.Fatal(h)
	}
	// A changed password ends what the old one had begun.
	g.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_SetPassword{SetPassword: &messages.SetPassword{Name: "ann", PasswordHash: g.hash}}})
	g.refused(g.ask(put("a/1")), messages.Code_CODE_UNAUTHENTICATED, "credentials")

	g = newGuarded(t)
	g.hello("", &messages.Credentials{User: "ghost", Password: annsPassword})
	if g.passwords[0].user != nil {
		t.Fatal("a user was found")
	}
	g.core.passwordChecked(&passwordChecked{})
	g.run()
	g.wantClosed(messages.Code_CODE_UNAUTHENTICATED)
}

// TestPasswords checks the checker: right, wrong, remembered, and full.
func TestPasswords(t *testing.T) {
	hash, err := credential.HashPassword(annsPassword, messages.PasswordRoundsMin)
	if err != nil {
		t.Fatal(err)
	}
	u := &messages.User{Name: "ann", Id: 1, PasswordHash: hash}
	p := newPasswords()
	check := func(u *messages.User, password string) *passwordChecked {
		done := make(chan *passwordChecked, 1)
		p.check(u, password, func(c *passwordChecked) { done <- c })
		select {
		case c := <-done:
			return c
		case <-time.After(time.Minute):
			t.Fatal("never answered")
			return nil
		}
	}
	for range 2 {
		if c := check(u, annsPassword); c.user != u || c.err != nil {
			t.Fatalf("the right one: %+v", c)
		}
		if c := check(u, "another password"); c.user != nil || c.err != nil {
			t.Fatalf("a wrong one: %+v", c)
		}
	}
	if c := check(nil, annsPassword); c.user != nil {
		t.Fatal("nobody has a password")
	}
	p.places <- struct{}{}
	p.places <- struct{}{}
	guessed := make(chan *passwordChecked, passwordsWaiting)
	for range passwordsWaiting {
		p.check(u, "guess", func(c *passwordChecked) { guessed <- c })
	}
	if c := check(u, "guess"); c.err.Code() != messages.Code_CODE_OVERLOADED || c.err.Detail.RetryAfterMs == 0 {
		t.Fatalf("one too many: %+v", c)
	}
	if c := check(u, annsPassword); c.user != u {
		t.Fatal("one that is known must not wait behind guesses")
	}
	<-p.places
	<-p.places
	for range passwordsWaiting { // those that wait are answered
		select {
		case c := <-guessed:
			if c.user != nil || c.err != nil {
				t.Fatalf("a guess: %+v", c)
			}
		case <-time.After(time.Minute):
			t.Fatal("a guess was never answered")
		}
	}
}

// TestTokenIsRenewedOnTheOpenStream: the watch and the call in flight go on.
func TestTokenIsRenewedOnTheOpenStream(t *testing.T) {
	g := newGuarded(t)
	g.hello("", &messages.Credentials{Token: g.token("ann", 10_000)})
	if h := g.welcome(); h.User != "ann" || h.CredentialsLeftMs != 10_000 || h.CredentialsExpireUnixMs != g.node.Now().WallMs+10_000 {
		t.Fatal(h)
	}
	g.startWatch(7, "a/")
	inFlight := g.ask(put("a/1"))
	g.node.wallMs += 9_000
	renew := func(c *messages.Credentials) *messages.Authenticated {
		g.say(&messages.ClientMessage{Message: &messages.ClientMessage_Credentials{Credentials: c}})
		return g.take().GetAuthenticated()
	}
	if a := renew(&messages.Credentials{Token: "rubbish"}); a.GetError().GetCode() != messages.Code_CODE_UNAUTHENTICATED {
		t.Fatalf("rubbish: %v", a)
	}
	if a := renew(&messages.Credentials{Token: g.token("bob", 10_000)}); a.GetError().GetCode() != messages.Code_CODE_PERMISSION_DENIED {
		t.Fatalf("another user: %v", a)
	}
	if a := renew(&messages.Credentials{Token: g.token("ann", 10_000)}); a.GetError() != nil || a.LeftMs != 10_000 || a.User != "ann" {
		t.Fatalf("renewed: %v", a)
	}
	g.node.wallMs += 9_000
	g.event(7, 5)
	if g.take().GetWatchBatch() == nil {
		t.Fatal("the watch did not outlive the first token")
	}
	g.answer()
	g.reply(inFlight)
	// And then it runs out.
	g.node.wallMs += 1_000
	g.event(7, 6)
	if e := g.take().GetWatchEnd(); e.GetReason().GetCode() != messages.Code_CODE_UNAUTHENTICATED || e.GetResume().GetRevision() != 5 {
		t.Fatalf("the watch: %v", e)
	}
	g.refused(g.ask(put("a/1")), messages.Code_CODE_UNAUTHENTICATED, "credentials.token")
	g.refused(g.ask(get("a/1", messages.Consistency_CONSISTENCY_LINEARIZABLE, 0)), messages.Code_CODE_UNAUTHENTICATED, "credentials.token")
	// The stream is still there for a new one.
	if a := renew(&messages.Credentials{Token: g.token("ann", 10_000)}); a.GetError() != nil {
		t.Fatal(a)
	}
	again := g.ask(put("a/2"))
	g.answer()
	g.reply(again)
}

// TestRightsTakenAway: what is asked next is refused, and no event after the change
// leaves, although the hub sends it.
func TestRightsTakenAway(t *testing.T) {
	g := newGuarded(t)
	g.hello("ann", nil)
	g.welcome()
	g.startWatch(1, "a/")
	g.startWatch(2, "a/x/")
	g.event(1, 5)
	g.take()
	waiting := g.ask(get("a/1", messages.Consistency_CONSISTENCY_LINEARIZABLE, 0)) // admitted while it was allowed
	g.change(g.grant("writer", "a/x/", &messages.Grant{Read: true}))
	g.revoke("writer", "a/", &messages.Grant{Read: true})
	g.event(1, 6)
	e := g.take().GetWatchEnd()
	if e.GetWatchId() != 1 || e.GetReason().GetCode() != messages.Code_CODE_PERMISSION_DENIED || e.GetResume().GetRevision() != 5 {
		t.Fatalf("watch 1 ended with %v", e)
	}
	g.event(2, 6)
	if b := g.take().GetWatchBatch(); b.GetWatchId() != 2 {
		t.Fatalf("the watch that is still allowed got %v", b)
	}
	if !slices.ContainsFunc(g.hub, func(m any) bool { c, ok := m.(*protocol.CancelWatch); return ok && c.WatchID == 1 }) {
		t.Fatal("the hub still has the watch")
	}
	g.read(&page{revision: 6})
	g.refused(waiting, messages.Code_CODE_PERMISSION_DENIED, "key")
	g.refused(g.ask(get("a/1", messages.Consistency_CONSISTENCY_LINEARIZABLE, 0)), messages.Code_CODE_PERMISSION_DENIED, "key")
	g.refused(g.ask(write(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("a/1"), PrevKv: true}}})),
		messages.Code_CODE_PERMISSION_DENIED, "prev_kv")
	// The user goes: nothing is left.
	g.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_DeleteUser{DeleteUser: &messages.DeleteUser{Name: "ann"}}})
	g.tick(0)
	g.tick(250)
	if e := g.take().GetWatchEnd(); e.GetReason().GetCode() != messages.Code_CODE_UNAUTHENTICATED {
		t.Fatalf("watch 2 ended with %v", e)
	}
	g.refused(g.ask(put("a/1")), messages.Code_CODE_UNAUTHENTICATED, "credentials")
}

func TestTokensThatAreIssued(t *testing.T) {
	ask := func(g *guarded, user string, ttl int64) *messages.Reply {
		return g.reply(g.ask(&messages.Operation{Operation: &messages.Operation_Token{Token: &messages.TokenRequest{User: user, TtlMs: ttl}}}))
	}
	g := newGuarded(t)
	g.hello("ann", nil)
	g.welcome()
	token := ask(g, "", 5_000).GetToken()
	if token.GetUser() != "ann" || token.GetExpiresUnixMs() != g.node.Now().WallMs+5_000 {
		t.Fatal(token)
	}
	if r := ask(g, "root", 0); r.GetError().GetCode() != messages.Code_CODE_PERMISSION_DENIED {
		t.Fatalf("root's token: %v", r)
	}
	// It works, and it cannot buy time.
	g = newGuarded(t)
	g.hello("", &messages.Credentials{Token: token.Token})
	if h := g.welcome(); h.User != "ann" {
		t.Fatal(h)
	}
	if r := ask(g, "ann", 3_600_000).GetToken(); r.GetExpiresUnixMs() != token.ExpiresUnixMs {
		t.Fatalf("a token bought a longer one: %v", r)
	}
	// Revoked, it is worth nothing, at once.
	g.change(&messages.ChangeAuth{Change: &messages.ChangeAuth_RevokeTokens{RevokeTokens: &messages.RevokeTokens{User: "ann"}}})
	g.refused(g.ask(put("a/1")), messages.Code_CODE_UNAUTHENTICATED, "credentials")
}

// TestRecovery: whoever has the secret of the node's files is not asked, and signs as
// trusted.
func TestRecovery(t *testing.T) {
	g := newGuarded(t)
	g.core.cfg.Recovery = func(secret []byte) bool { return string(secret) == "from the file" }
	g.hello("", &messages.Credentials{Recovery: []byte("from the file")})
	g.welcome()
	g.ask(write(&messages.Write{Op: &messages.Write_ChangeAuth{ChangeAuth: &messages.ChangeAuth{Change: &messages.ChangeAuth_Disable{Disable: &messages.DisableAuth{}}}}}))
	c := g.proposed[0].Commands[0]
	if !c.Trusted || c.UserId != 0 || c.Principal != "(recovery)" || c.Audit.GetAction() != "auth_disable" {
		t.Fatalf("proposed %v", c)
	}
}

// TestEnablingReachesOpenSessions: a session that was open before is somebody, or
// nobody, from the next call on.
func TestEnablingReachesOpenSessions(t *testing.T) {
	g := newGuarded(t)
	enabled := g.node.auth
	g.node.auth = auth.New()
	g.hello("", nil)
	g.welcome()
	ok := g.ask(put("b/1"))
	if c := g.proposed[0].Commands[0]; c.UserId != 0 || c.Trusted || c.Audit != nil {
		t.Fatalf("proposed %v", c)
	}
	g.answer()
	g.reply(ok)
	g.node.auth = enabled
	g.refused(g.ask(put("b/1")), messages.Code_CODE_UNAUTHENTICATED, "credentials")
}

// TestKeysNeverComeFromClients: whoever chooses the key could sign tokens.
func TestKeysNeverComeFromClients(t *testing.T) {
	g := newGuarded(t)
	g.hello("root", nil)
	g.welcome()
	mine := bytes.Repeat([]byte{9}, 32)
	for _, c := range []*messages.ChangeAuth{
		{Change: &messages.ChangeAuth_Enable{Enable: &messages.EnableAuth{TokenKey: mine}}},
		{Change: &messages.ChangeAuth_RevokeTokens{RevokeTokens: &messages.RevokeTokens{TokenKey: mine}}},
	} {
		g.ask(write(&messages.Write{Op: &messages.Write_ChangeAuth{ChangeAuth: c}}))
		p := g.proposed[0].Commands[0].GetChangeAuth()
		g.answer()
		g.take()
		for _, key := range [][]byte{p.GetEnable().GetTokenKey(), p.GetRevokeTokens().GetTokenKey()} {
			if bytes.Equal(key, mine) {
				t.Fatalf("proposed %v", p)
			}
		}
		if len(p.GetEnable().GetTokenKey())+len(p.GetRevokeTokens().GetTokenKey()) != messages.TokenKeyBytes {
			t.Fatalf("proposed %v", p)
		}
	}
}

// startWatch starts a watch of a prefix and has the hub accept it.
func (g *guarded) startWatch(id uint64, prefix string) {
	g.t.Helper()
	call := g.ask(&messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{
		WatchId: id, Selector: prefixOf(prefix), FromRevision: 1,
	}}})
	g.core.deliver(&protocol.Deliver{Items: []protocol.Item{{Started: &protocol.Started{Call: call, WatchID: id, From: 1, Current: 4}}}})
	g.run()
	if r := g.reply(call); r.GetWatch() == nil {
		g.t.Fatalf("no watch: %v", r)
	}
}

// event has the hub deliver an event of a revision to a watch.
func (g *guarded) event(id, revision uint64) {
	batch := messages.NewSharedBatch([]*messages.Event{{Revision: revision}}, &messages.Position{Revision: revision, OpIndex: messages.PositionOpIndexEnd}, true, false)
	g.core.deliver(&protocol.Deliver{Items: []protocol.Item{{Batch: batch, WatchIDs: []uint64{id}, Bytes: 10}}})
	g.run()
}
