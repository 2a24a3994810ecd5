package session

import (
	"github.com/concord-kv/concord/cluster/credential"
	"github.com/concord-kv/concord/messages"
)

// Credentials come with the hello, or later to renew a token. A password takes a tenth
// of a second to check, so somebody else does it and the answer comes as a message;
// meanwhile the client waits.

// passwordChecked is passwords -> session: the answer to a check.
type passwordChecked struct {
	user *messages.User // nil: wrong
	err  *messages.Error
}

// onCredentials takes credentials that come after the hello.
func (c *core) onCredentials(m *messages.Credentials) {
	if err := messages.ValidateCredentials(m); err != nil {
		c.authenticated(err)
		return
	}
	c.owes += priceCredentials
	if c.checking != nil {
		c.violated("credentials while others are being checked")
		return
	}
	c.show(m, c.authenticated)
}

// show takes credentials and calls then, at once or once a password has been checked.
// What the client was before stays as it is when they are refused.
func (c *core) show(m *messages.Credentials, then func(*messages.Error)) {
	t := c.cfg.Node.Auth()
	guarded := t != nil && t.Enabled()
	switch {
	case len(m.GetRecovery()) > 0:
		if c.cfg.Recovery == nil || !c.cfg.Recovery(m.GetRecovery()) {
			then(messages.NewError(messages.Code_CODE_UNAUTHENTICATED, "the recovery secret is not that of this node").WithField("credentials.recovery"))
			return
		}
		c.who.recovered = true
		c.identify(t)
		then(nil)
	case m.GetToken() != "":
		then(c.become(func(i *identity) { i.token, i.password = m.GetToken(), nil }))
	case !guarded:
		then(nil) // there is nothing to check it against
	default:
		c.checking = then
		c.port.checkPassword(t.User(m.GetUser()), m.GetPassword())
	}
}

// passwordChecked goes on where a password was waited for.
func (c *core) passwordChecked(m *passwordChecked) {
	then := c.checking
	if c.checking = nil; then == nil || c.phase == closing {
		return
	}
	err := m.err
	if err == nil && m.user == nil {
		err = messages.NewError(messages.Code_CODE_UNAUTHENTICATED, "no such user, or another password").WithField("credentials.password")
	}
	if err == nil {
		err = c.become(func(i *identity) { i.token, i.password = "", m.user })
	}
	then(err)
	c.wake()
}

// become takes an identity if it is one, and if it is the one that the client had.
func (c *core) become(change func(*identity)) *messages.Error {
	before := c.who
	change(&c.who)
	c.identify(c.cfg.Node.Auth())
	err := c.who.refused
	if err == nil && !before.sameUser(&c.who) {
		err = messages.NewError(messages.Code_CODE_PERMISSION_DENIED, "the connection is of user %q", before.name).WithField("credentials")
	}
	if err != nil {
		c.who = before
		return copyError(err)
	}
	return nil
}

// authenticated answers credentials that came after the hello.
func (c *core) authenticated(err *messages.Error) {
	a := &messages.Authenticated{User: c.who.name, ExpiresUnixMs: c.who.expiresMs, LeftMs: c.leftMs()}
	if err != nil {
		a.Error = err.Detail
		c.cfg.Telemetry.Refused(err.Code())
	} else {
		c.endForbiddenWatches()
	}
	c.send(&messages.ServerMessage{Message: &messages.ServerMessage_Authenticated{Authenticated: a}})
}

// leftMs is how long the client's token is good for; 0: for ever.
func (c *core) leftMs() int64 {
	if c.who.expiresMs == 0 {
		return 0
	}
	return max(1, c.who.expiresMs-c.cfg.Node.Now().WallMs)
}

// onToken issues a token. It never outlives the one that it was asked for with, else a
// stolen token would be good for ever.
func (c *core) onToken(call uint64, r *messages.TokenRequest) *messages.Error {
	if err := c.allowed(); err != nil {
		return err
	}
	if err := messages.ValidateTokenRequest(r); err != nil {
		return err
	}
	t := c.who.table
	if t == nil || len(t.TokenKey()) == 0 {
		return messages.NewError(messages.Code_CODE_AUTH_DISABLED, "authorization has never been enabled: there is nothing to sign a token with")
	}
	if !c.who.guarded {
		return messages.NewError(messages.Code_CODE_AUTH_DISABLED, "authorization is disabled: nobody would ask for a token")
	}
	name := r.GetUser()
	if name == "" {
		if name = c.who.name; c.who.userID == 0 {
			return messages.InvalidField("user", "whose token?")
		}
	}
	if name != c.who.name && !c.who.rights.Admin() {
		return c.who.rights.Denied("have tokens of others", "user")
	}
	u := t.User(name)
	if u == nil {
		return messages.NewError(messages.Code_CODE_USER_NOT_FOUND, "no user is called %q", name).WithField("user")
	}
	now := c.cfg.Node.Now().WallMs
	ttl := r.GetTtlMs()
	if ttl == 0 {
		ttl = messages.TokenTTLDefaultMs
	}
	expires := now + ttl
	if c.who.expiresMs != 0 {
		expires = min(expires, c.who.expiresMs)
	}
	token, err := credential.SignToken(t.TokenKey(), &messages.TokenClaims{
		ClusterId: c.facts.ClusterID, Incarnation: c.facts.Incarnation, User: u.GetName(), UserId: u.GetId(),
		CredentialRevision: u.GetCredentialRevision(), IssuedUnixMs: now, ExpiresUnixMs: expires,
	})
	if err != nil {
		return messages.InvalidField("user", "%v", err)
	}
	c.cfg.Logger.Info("a token was issued", "user", u.GetName(), "by", c.who.principal(), "address", c.peer.Address, "expires_unix_ms", expires)
	reply := &messages.TokenReply{Token: token, User: u.GetName(), ExpiresUnixMs: expires}
	c.queueReply(&messages.Reply{Call: call, Reply: &messages.Reply_Token{Token: reply}}, int64(len(token))+128)
	return nil
}
