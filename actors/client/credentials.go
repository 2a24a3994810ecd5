package client

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/concord-kv/concord/messages"
)

// CredentialSource gives what says who the client is: for each connection, and again
// before a token runs out. It may take its time, within the context, and may be called
// from any goroutine. An error is like a node that does not answer: it is tried again.
type CredentialSource func(context.Context) (*messages.Credentials, error)

// TokenCredentials is a token that does not change.
func TokenCredentials(token string) CredentialSource {
	return func(context.Context) (*messages.Credentials, error) {
		return &messages.Credentials{Token: strings.TrimSpace(token)}, nil
	}
}

// TokenFileCredentials reads the token from a file each time: whoever renews the file
// renews the client.
func TokenFileCredentials(path string) CredentialSource {
	return func(context.Context) (*messages.Credentials, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			e := messages.NewError(messages.Code_CODE_UNAUTHENTICATED, "the token cannot be read").WithField("credentials.token")
			e.Err = err
			return nil, e
		}
		return &messages.Credentials{Token: strings.TrimSpace(string(text))}, nil
	}
}

// PasswordCredentials is a user and a password. Use them over TLS only.
func PasswordCredentials(user, password string) CredentialSource {
	return func(context.Context) (*messages.Credentials, error) {
		return &messages.Credentials{User: user, Password: password}, nil
	}
}

// RecoveryCredentials is the secret that `concord auth recover` has put into a node's
// data directory.
func RecoveryCredentials(secret []byte) CredentialSource {
	return func(context.Context) (*messages.Credentials, error) {
		return &messages.Credentials{Recovery: secret}, nil
	}
}

// Renewals of a token: after two thirds of its time, and, while that fails, every tenth
// of it, but not all the time.
const (
	renewAgainMin = 50 * time.Millisecond
	renewAgainMax = 10 * time.Second
)

// renewer renews the token of one connection. The client's lock guards it.
type renewer struct {
	c     *Client
	ctx   context.Context
	timer Timer
	left  time.Duration // of the token, when it was last said
	over  bool
}

// begin sets the time of the first renewal. The client's lock is held.
func (c *Client) newRenewer(ctx context.Context, leftMs int64) *renewer {
	r := &renewer{c: c, ctx: ctx}
	if c.cfg.Credentials != nil && leftMs > 0 {
		r.left = time.Duration(leftMs) * time.Millisecond
		r.again(r.left * 2 / 3)
	}
	return r
}

func (r *renewer) again(after time.Duration) {
	if r.over {
		return
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	r.timer = r.c.cfg.Clock.AfterFunc(after, func() { go r.renew() })
}

// stop ends it with its connection. The client's lock is held.
func (r *renewer) stop() {
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

func (r *renewer) renew() {
	ctx, cancel := context.WithTimeout(r.ctx, r.c.cfg.Timeout)
	credentials, err := r.c.cfg.Credentials(ctx)
	cancel()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.over {
		return
	}
	if err != nil {
		r.c.cfg.Logger.Warn("no new credentials", "reason", err)
		r.retry()
		return
	}
	r.c.pipe.Renew(credentials)
	r.c.kick()
}

func (r *renewer) retry() { r.again(min(max(r.left/10, renewAgainMin), renewAgainMax)) }

// answered takes the node's answer. The client's lock is held.
func (r *renewer) answered(a *messages.Authenticated) {
	if e := a.GetError(); e != nil {
		r.c.cfg.Logger.Warn("the new credentials were refused", "reason", messages.ErrorFrom(e))
		r.retry()
		return
	}
	if r.left = time.Duration(a.GetLeftMs()) * time.Millisecond; r.left > 0 {
		r.again(r.left * 2 / 3)
	}
}

// nobody reports whether a node has refused the client's credentials: those are wrong
// everywhere, and callers should hear of it now.
func nobody(err error) bool {
	d := messages.DetailOf(err)
	return d.GetCode() == messages.Code_CODE_UNAUTHENTICATED && strings.HasPrefix(d.GetField(), "credentials")
}
