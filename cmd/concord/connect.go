package main

import (
	"crypto/tls"
	"net"
	"os"
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
	config, err := a.tlsConfig()
	if err != nil {
		return client.Config{}, err
	}
	cfg := client.Config{Name: "concord CLI", TLS: config, Timeout: a.timeout}
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

func (a *app) tlsConfig() (*tls.Config, error) {
	if a.ca == "" {
		if a.cert != "" || a.key != "" {
			return nil, messages.InvalidField("ca", "--cert and --key need --ca")
		}
		return nil, nil
	}
	pem, err := os.ReadFile(a.ca)
	if err != nil {
		return nil, messages.InvalidField("ca", "%v", err)
	}
	roots, err := certs.PoolOf(pem)
	if err != nil {
		return nil, messages.InvalidField("ca", "%v", err)
	}
	if a.cert == "" && a.key == "" {
		return certs.ClientTLS(roots, nil), nil
	}
	pair, err := tls.LoadX509KeyPair(a.cert, a.key)
	if err != nil {
		return nil, messages.InvalidField("cert", "%v", err)
	}
	return certs.ClientTLS(roots, &pair), nil
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
