package session

import (
	"github.com/concord-kv/concord/cluster/credential"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
)

// identity is who the client is, and what it may do by the last table of who may do
// what that the session has seen.
type identity struct {
	// What it has shown. The certificate's name and where it comes from say who it is
	// unless it has given credentials.
	certificate string
	inProcess   bool   // the process that embeds the node: it is not asked
	recovered   bool   // it has proven to own the node's files: it is not asked
	token       string // it has shown a token
	password    *messages.User

	table  *auth.Table // what follows is by this table
	name   string      // of the user, or of the certificate
	userID uint64
	rights *auth.Rights // nil: not asked
	// refused is why nothing at all is allowed: it is nobody, or nobody any more.
	refused *messages.Error
	// guarded: there is something to check, for each call.
	guarded bool
	// expiresMs is the time of day when its token runs out; 0: it does not.
	expiresMs int64
}

// principal is the name that goes with commands and audit records.
func (i *identity) principal() string {
	switch {
	case i.recovered:
		return "(recovery)"
	case i.inProcess && i.name == "":
		return "(process)"
	}
	return i.name
}

// refreshIdentity looks whether rights have changed, and ends what is not allowed any
// more. It costs a comparison of two pointers when they have not.
func (c *core) refreshIdentity() {
	t := c.cfg.Node.Auth()
	if t == c.who.table && (c.who.expiresMs == 0 || c.who.refused != nil || c.cfg.Node.Now().WallMs < c.who.expiresMs) {
		return
	}
	c.identify(t)
	c.endForbiddenWatches()
}

// identify finds out, by this table, who the client is.
func (c *core) identify(t *auth.Table) {
	i := &c.who
	i.table, i.name, i.userID, i.rights, i.refused, i.expiresMs = t, i.certificate, 0, nil, nil, 0
	i.guarded = t != nil && t.Enabled()
	if !i.guarded || i.recovered {
		return
	}
	var u *messages.User
	switch {
	case i.token != "":
		claims, err := credential.ParseToken(t.TokenKey(), i.token, c.facts.ClusterID, c.facts.Incarnation, c.cfg.Node.Now().WallMs)
		if err != nil {
			i.refused = err
			return
		}
		i.expiresMs, i.name = claims.GetExpiresUnixMs(), claims.GetUser()
		if u = t.UserByID(claims.GetUserId()); u != nil && u.GetCredentialRevision() != claims.GetCredentialRevision() {
			u = nil
		}
	case i.password != nil:
		i.name = i.password.GetName()
		if u = t.UserByID(i.password.GetId()); u != nil && u.GetCredentialRevision() != i.password.GetCredentialRevision() {
			u = nil
		}
	case i.inProcess:
		return
	case i.certificate != "":
		u = t.User(i.certificate)
	default:
		i.refused = messages.NewError(messages.Code_CODE_UNAUTHENTICATED, "say who you are: by a client certificate, a token or a password").
			WithField("credentials")
		return
	}
	if u == nil {
		i.refused = messages.NewError(messages.Code_CODE_UNAUTHENTICATED, "%q is no user, or these credentials were revoked", i.name).
			WithField("credentials")
		return
	}
	i.userID = u.GetId()
	i.rights, _ = t.Rights(u.GetId())
}

// trusted reports whether nobody asks for rights although authorization is enabled.
func (i *identity) trusted() bool { return i.guarded && i.refused == nil && i.rights == nil }

// sign says in a command whose it is.
func (c *core) sign(command *messages.Command) {
	command.Principal = c.who.name
	if c.who.guarded {
		command.UserId, command.Trusted = c.who.userID, c.who.trusted()
		if command.Trusted {
			command.Principal = c.who.principal()
		}
	}
}

// takeCertificate notes what the transport says of the client.
func (i *identity) takeCertificate(p transport.Peer) {
	i.certificate, i.inProcess = p.Name, p.Kind == transport.KindInProcess
	i.name = i.certificate
}

// sameUser reports whether newly shown credentials are of who the client was: a
// connection does not change hands.
func (i *identity) sameUser(u *identity) bool {
	return i.userID == 0 || u.refused != nil || u.userID == i.userID
}

// endForbiddenWatches ends the watches that rights have been taken away from: before
// the next event, because the node knows of the change before it knows of any event
// after it.
func (c *core) endForbiddenWatches() {
	if !c.who.guarded {
		return
	}
	for _, w := range c.sortedWatches() {
		reason := c.who.refused
		if reason == nil {
			reason = auth.CheckWatch(c.who.rights, w.selector)
		}
		if reason != nil {
			c.endWatch(w, reason)
		}
	}
}

// allowed refuses what anybody needs an identity for.
func (c *core) allowed() *messages.Error {
	c.refreshIdentity()
	if c.who.refused != nil {
		return copyError(c.who.refused)
	}
	return nil
}

// copyError: details travel, and are changed on the way.
func copyError(e *messages.Error) *messages.Error {
	d := e.Detail
	return messages.NewError(d.GetCode(), "%s", d.GetMessage()).WithField(d.GetField())
}

// mayWrite refuses a command that the client has no right for. Where it applies it is
// checked again.
func (c *core) mayWrite(command *messages.Command) *messages.Error {
	if err := c.allowed(); err != nil {
		return err
	}
	if c.who.token != "" && !c.who.rights.Admin() && command.GetChangeAuth().GetSetPassword() != nil {
		// A token ends; a password that was set with one would not. Whoever stole it must
		// not have more than what is left of it.
		return messages.NewError(messages.Code_CODE_PERMISSION_DENIED, "a token sets no password: log in with the password, or by a certificate").
			WithField("change_auth")
	}
	return auth.CheckCommand(c.who.rights, command)
}

// mayQuery refuses a read early. When it is answered it is checked again.
func (c *core) mayQuery(q *messages.Query) *messages.Error {
	if err := c.allowed(); err != nil {
		return err
	}
	return auth.CheckQuery(c.who.rights, q)
}

func (c *core) mayWatch(r *messages.WatchRequest) *messages.Error {
	if err := c.allowed(); err != nil {
		return err
	}
	return auth.CheckWatch(c.who.rights, r.GetSelector())
}

// mayOperate refuses what only operators may ask. Where the members are, clients are
// told anyway.
func (c *core) mayOperate(r *messages.AdminRequest) *messages.Error {
	if !c.who.guarded {
		return nil
	}
	if err := c.allowed(); err != nil {
		return err
	}
	if r.GetMembers() == nil && !c.who.rights.Admin() {
		return c.who.rights.Denied("administer", "admin")
	}
	return nil
}

// user is who the client is, for itself to know.
func (i *identity) user() string {
	if i.userID == 0 {
		return ""
	}
	return i.name
}
