package main

import (
	"crypto/tls"
	"net"
	"strings"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/messages"
)

// connect makes the client. It does not wait for a connection: the request does.
func (a *app) connect() (*client.Client, error) {
	cfg, err := a.clientConfig()
	if err != nil {
		return nil, err
	}
	cfg.OneShot, cfg.Settle, cfg.NewKey = true, a.timeout, a.newKey
	return client.New(cfg)
}

// connectSession makes the client of a command that holds something: its writes are
// numbered.
func (a *app) connectSession() (*client.Client, error) {
	cfg, err := a.clientConfig()
	if err != nil {
		return nil, err
	}
	return client.New(cfg)
}

func (a *app) clientConfig() (client.Config, error) {
	endpoints := a.endpoint
	if endpoints == "" {
		endpoints = a.getenv("CONCORD_ENDPOINT")
	}
	if endpoints == "" {
		endpoints = endpointDefault
	}
	if a.timeout <= 0 {
		return client.Config{}, messages.InvalidField("timeout", "must be more than 0")
	}
	current, err := a.currentTLS()
	if err != nil {
		return client.Config{}, err
	}
	cfg := client.Config{Name: "concord CLI", CurrentTLS: current, Timeout: a.timeout}
	if cfg.Credentials, err = a.credentials(); err != nil {
		return client.Config{}, err
	}
	if a.verbose {
		if cfg.Logger, err = newLogger(a.err, "debug", a.json()); err != nil {
			return client.Config{}, err
		}
	}
	for e := range strings.SplitSeq(endpoints, ",") {
		if e = strings.TrimSpace(e); e != "" {
			if _, port, err := net.SplitHostPort(e); err != nil || port == "" {
				return client.Config{}, messages.InvalidField("endpoint", "%q is not HOST:PORT", e)
			}
			cfg.Endpoints = append(cfg.Endpoints, e)
		}
	}
	return cfg, nil
}

// newKey names a write, by the flag or at random, and remembers how.
func (a *app) newKey(random func() string) string {
	if a.usedIdempotency = a.idempotencyKey; a.usedIdempotency == "" {
		a.usedIdempotency = random()
	}
	return a.usedIdempotency
}

// currentTLS follows the files that the flags name: what runs for long need not be
// restarted when they are replaced. Nil for plain text.
func (a *app) currentTLS() (func() *tls.Config, error) {
	switch {
	case a.ca == "" && (a.cert != "" || a.key != ""):
		return nil, messages.InvalidField("ca", "--cert and --key need --ca")
	case a.ca == "":
		return nil, nil
	}
	if _, err := (certs.Files{CA: a.ca}).ClientTLS(); err != nil {
		return nil, messages.InvalidField("ca", "%v", err)
	}
	current, err := certs.Files{CA: a.ca, Cert: a.cert, Key: a.key}.ClientTLS()
	if err != nil {
		return nil, messages.InvalidField("cert", "%v", err)
	}
	return current, nil
}

// credentials are what the flags, or else the environment, say of who this is; nil for
// nothing.
func (a *app) credentials() (client.CredentialSource, error) {
	token, user := a.token, a.user
	if token == "" && a.tokenFile == "" && user == "" {
		token, user = a.getenv("CONCORD_AUTH_TOKEN"), a.getenv("CONCORD_USER")
		if token != "" {
			user = ""
		}
	}
	switch {
	case token != "" && (a.tokenFile != "" || user != ""), a.tokenFile != "" && user != "":
		return nil, messages.InvalidField("token", "one of --token, --token-file and --user is enough")
	case token != "":
		return client.TokenCredentials(token), nil
	case a.tokenFile != "":
		return client.TokenFileCredentials(a.tokenFile), nil
	case user == "":
		return nil, nil
	}
	password := a.getenv("CONCORD_PASSWORD")
	if a.passwordFile != "" {
		var err error
		if password, err = a.secret(a.passwordFile, "password-file"); err != nil {
			return nil, err
		}
	}
	if password == "" {
		return nil, messages.InvalidField("password-file", "--user needs a password")
	}
	return client.PasswordCredentials(user, password), nil
}
