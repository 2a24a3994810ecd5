package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/messages"
)

// serveFlags are the flags of serve that are not a field of node.Config as they stand.
type serveFlags struct {
	level                    string
	members, endpoints       []string
	bootstrap                []string
	tlsCert, tlsKey, tlsPool string
}

func (s *serveFlags) add(c *cobra.Command, cfg *node.Config) {
	f := c.Flags()
	f.StringVar(&cfg.Dir, "data-dir", "data", "where the node keeps its log and snapshots")
	f.StringVar(&cfg.ClientAddress, "listen", endpointDefault, "where clients connect; port 0 takes a free one")
	f.StringVar(&cfg.AdminAddress, "admin", "", "where /metrics and /healthz are served; default not at all")
	f.BoolVar(&cfg.AdminPprof, "pprof", false, "serve /debug/pprof there too")
	f.StringVar(&s.level, "log-level", "warn", "debug, info, warn or error")
	f.StringArrayVar(&s.bootstrap, "bootstrap", nil, "setting NAME=VALUE that a new cluster begins with; may be repeated")

	f.Uint64Var(&cfg.ReplicaID, "replica-id", 1, "the node's number in its cluster, for ever")
	f.StringVar(&cfg.RaftAddress, "raft-address", "", "how the other members reach this node; default alone")
	f.StringVar(&cfg.RaftListenAddress, "raft-listen", "", "where to listen for them, if not there")
	f.StringArrayVar(&s.members, "member", nil, "a first member as ID=HOST:PORT of its raft address, the same on each; may be repeated")
	f.StringArrayVar(&s.endpoints, "member-endpoint", nil, "where clients reach a member, as ID=HOST:PORT; may be repeated")
	f.BoolVar(&cfg.Join, "join", false, "the node was added to a running cluster")
	f.BoolVar(&cfg.NonVoting, "non-voting", false, "it was added without a vote")
	f.StringVar(&cfg.RaftCAFile, "raft-ca", "", "PEM file of the authority for members alone; turns mutual TLS on between them")
	f.StringVar(&cfg.RaftCertFile, "raft-cert", "", "PEM file of this member's certificate")
	f.StringVar(&cfg.RaftKeyFile, "raft-key", "", "PEM file of its key")

	f.StringVar(&s.tlsCert, "tls-cert", "", "PEM file of the certificate shown to clients; turns TLS on")
	f.StringVar(&s.tlsKey, "tls-key", "", "PEM file of its key")
	f.StringVar(&s.tlsPool, "tls-client-ca", "", "PEM file of the authority whose certificates clients must show")
}

// apply fills cfg from the flags.
func (s *serveFlags) apply(cfg *node.Config) (err error) {
	if cfg.InitialMembers, err = addresses("member", s.members); err != nil {
		return err
	}
	if cfg.Endpoints, err = addresses("member-endpoint", s.endpoints); err != nil {
		return err
	}
	if len(s.bootstrap) > 0 {
		cfg.Bootstrap = messages.DefaultClusterConfig()
		for _, b := range s.bootstrap {
			name, value, ok := strings.Cut(b, "=")
			if !ok {
				return messages.InvalidField("bootstrap", "%q is not NAME=VALUE", b)
			}
			if err := setSetting(cfg.Bootstrap, name, value); err != nil {
				return err
			}
		}
		if err := messages.ValidateConfig(cfg.Bootstrap); err != nil {
			return err
		}
	}
	cfg.ClientTLS, err = s.clientTLS()
	return err
}

func addresses(field string, args []string) (map[uint64]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	m := make(map[uint64]string, len(args))
	for _, arg := range args {
		id, address, ok := strings.Cut(arg, "=")
		n, err := strconv.ParseUint(id, 10, 64)
		if !ok || err != nil || n == 0 || address == "" {
			return nil, messages.InvalidField(field, "%q is not ID=HOST:PORT", arg)
		}
		if m[n] != "" {
			return nil, messages.InvalidField(field, "%d is given twice", n)
		}
		m[n] = address
	}
	return m, nil
}

func (s *serveFlags) clientTLS() (*tls.Config, error) {
	if s.tlsCert == "" && s.tlsKey == "" {
		if s.tlsPool != "" {
			return nil, messages.InvalidField("tls-client-ca", "needs --tls-cert and --tls-key")
		}
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.tlsCert, s.tlsKey)
	if err != nil {
		return nil, messages.InvalidField("tls-cert", "%v", err)
	}
	var clients *x509.CertPool
	if s.tlsPool != "" {
		pem, err := os.ReadFile(s.tlsPool)
		if err == nil {
			clients, err = certs.PoolOf(pem)
		}
		if err != nil {
			return nil, messages.InvalidField("tls-client-ca", "%v", err)
		}
	}
	return certs.ServerTLS(pair, clients), nil
}
