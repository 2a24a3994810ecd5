package main

import (
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/remoting"
	"github.com/concord-kv/concord/messages"
)

// serveFlags are the flags of serve that are not a field of node.Config as they stand.
type serveFlags struct {
	level                     string
	file                      string
	members                   []string
	bootstrap                 []string
	nodeCA, nodeCert, nodeKey string
	tlsCert, tlsKey, tlsPool  string
	tlsOptional               bool

	actors, actorCA, actorCert, actorKey string
	etcd, etcdAdvertise                  string
}

func (s *serveFlags) add(c *cobra.Command, cfg *node.Config) {
	f := c.Flags()
	f.StringVar(&cfg.Dir, "data-dir", "data", "where the node keeps its log and snapshots")
	f.StringVar(&cfg.ClientAddress, "listen", endpointDefault, "where clients connect; port 0 takes a free one")
	f.StringVar(&s.file, "config", "", "file of these flags, one NAME=VALUE a line; the command line goes first")
	f.StringVar(&cfg.AdminAddress, "admin", "", "where /metrics and /healthz are served, usually on port "+adminPort+"; default not at all")
	f.BoolVar(&cfg.AdminPprof, "pprof", false, "serve /debug/pprof there too")
	f.StringVar(&s.level, "log-level", "warn", "debug, info, warn or error")
	f.StringArrayVar(&s.bootstrap, "bootstrap", nil, "setting NAME=VALUE that a new cluster begins with; may be repeated")

	f.Uint64Var(&cfg.ReplicaID, "replica-id", 1, "the node's number in its cluster, for ever")
	f.StringArrayVar(&s.members, "member", nil, "a first member of the cluster, this node included, as ID=RAFT,PEER,CLIENT, each HOST:PORT, or as ID=HOST for ports "+
		raftPort+", "+peerPort+", "+clientPort+"; the same on each and at each restart; may be repeated")
	f.StringVar(&cfg.RaftListenAddress, "raft-listen", "", "where to listen for Raft, if not at the member's address")
	f.StringVar(&cfg.PeerListenAddress, "peer-listen", "", "where to listen for peers, if not at the member's address")
	f.StringSliceVar(&cfg.Contacts, "join", nil, "peer addresses of a running cluster that this node was added to; --member then names this node alone")
	f.BoolVar(&cfg.NonVoting, "non-voting", false, "it was added without a vote; stays set when it is promoted")
	f.BoolVar(&cfg.MendTornLog, "mend-torn-log", false, "drop a last record that a loss of power cut off; only for a node that was always alone")
	f.StringVar(&cfg.ClusterName, "cluster-name", "", "nodes of another name are not heard; cannot change later")
	f.StringVar(&s.nodeCA, "node-ca", "", "PEM file of the authority for nodes alone; turns mutual TLS on between nodes")
	f.StringVar(&s.nodeCert, "node-cert", "", "PEM file of this node's certificate")
	f.StringVar(&s.nodeKey, "node-key", "", "PEM file of its key")

	f.Int64Var(&cfg.SnapshotBytes, "snapshot-bytes", 0, "bytes of applied entries that lead to a snapshot; 0: 256 MiB")
	f.IntVar(&cfg.Sessions.ConnectionsMax, "connections-max", messages.ConnectionsPerNodeDefault, "connections of clients that this node takes")
	f.IntVar(&cfg.Sessions.ConnectionsPerClient, "connections-per-client", 0, "those of one user, or, without users, of one host; 0: three quarters of all")
	f.IntVar(&cfg.Sessions.ConnectsPerNode, "connects-per-node", 500, "connections that clients may begin in a second, after a burst of eight times as many; the others wait")
	f.IntVar(&cfg.Sessions.ConnectsPerClient, "connects-per-client", 250, "those from one host")
	f.Int64Var(&cfg.Sessions.ChurnPerNode, "churn-per-node", 8_000, "watches that clients may begin in a second; fifty calls refused count as one")
	f.Int64Var(&cfg.Sessions.ChurnPerClient, "churn-per-client", 2_000, "those of one user, or, without users, of one host, after a burst of five times as many")
	f.Int64Var(&cfg.Sessions.QueueBytesPerNode, "unread-bytes-max", 256<<20, "bytes that may wait for clients that do not read")
	f.IntVar(&cfg.Watch.WatchersMax, "watches-max", messages.WatchersPerNodeDefault, "watches that this node serves")
	f.IntVar(&cfg.Watch.WatchersPerSessionMax, "watches-per-client", messages.WatchersPerClientDefault, "watches that one connection may have")

	f.StringVar(&s.tlsCert, "tls-cert", "", "PEM file of the certificate shown to clients; turns TLS on")
	f.StringVar(&s.tlsKey, "tls-key", "", "PEM file of its key")
	f.StringVar(&s.actors, "actors", "", "where services that run protoactor actors connect, HOST:PORT as their certificates name it; default not at all")
	f.StringVar(&s.actorCA, "actors-ca", "", "PEM file of the authority of these services; always needed")
	f.StringVar(&s.actorCert, "actors-cert", "", "PEM file of this node's certificate there, which names its address")
	f.StringVar(&s.actorKey, "actors-key", "", "PEM file of its key")
	f.StringVar(&s.etcd, "etcd", "", "where clients of etcd connect, with the TLS of --tls-cert if that is on; usually on port 2379; default not at all")
	f.StringVar(&s.etcdAdvertise, "etcd-advertise", "", "HOST:PORT that clients of etcd are told, if they see it at another address")
	f.StringVar(&s.tlsPool, "tls-client-ca", "", "PEM file of the authority whose certificates clients must show")
	f.BoolVar(&s.tlsOptional, "tls-client-optional", false, "clients may show none: with auth enabled they give a token or a password")
}

// apply fills cfg from the flags.
func (s *serveFlags) apply(f *pflag.FlagSet, cfg *node.Config) (err error) {
	if err := s.readFile(f); err != nil {
		return err
	}
	if err := s.applyMembers(f, cfg); err != nil {
		return err
	}
	if err := s.nodeTLS(cfg); err != nil {
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
	if cfg.ClientTLS, err = s.clientTLS(); err != nil {
		return err
	}
	if s.etcdAdvertise != "" {
		if _, _, err := net.SplitHostPort(s.etcdAdvertise); err != nil || s.etcd == "" {
			return messages.InvalidField("etcd-advertise", "%q is not HOST:PORT beside --etcd", s.etcdAdvertise)
		}
	}
	if s.etcd != "" {
		if _, _, err := net.SplitHostPort(s.etcd); err != nil {
			return messages.InvalidField("etcd", "%q is not HOST:PORT", s.etcd)
		}
		cfg.Etcd = &node.Etcd{Address: s.etcd, Advertise: s.etcdAdvertise, TLS: cfg.ClientTLS}
	}
	cfg.Actors, err = s.actorListener()
	return err
}

func (s *serveFlags) actorListener() (*remoting.Config, error) {
	if s.actors == "" {
		if s.actorCA != "" || s.actorCert != "" || s.actorKey != "" {
			return nil, messages.InvalidField("actors", "the certificates of services need an address")
		}
		return nil, nil
	}
	if _, _, err := net.SplitHostPort(s.actors); err != nil {
		return nil, messages.InvalidField("actors", "%v", err)
	}
	if _, err := os.Stat(s.actorCA); err != nil {
		return nil, messages.InvalidField("actors-ca", "%v", err)
	}
	follow, err := certs.Files{Cert: s.actorCert, Key: s.actorKey, CA: s.actorCA, Logger: slog.Default()}.Follow()
	if err != nil {
		return nil, messages.InvalidField("actors-cert", "%v", err)
	}
	return &remoting.Config{Listen: s.actors, Follow: follow}, nil
}

// readFile sets the flags that the command line has not.
func (s *serveFlags) readFile(f *pflag.FlagSet) error {
	if s.file == "" {
		return nil
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return messages.InvalidField("config", "%v", err)
	}
	given := map[string]bool{}
	f.Visit(func(flag *pflag.Flag) { given[flag.Name] = true })
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok || f.Lookup(name) == nil || name == "config":
			return messages.InvalidField("config", "%s, line %d: %q is not NAME=VALUE of a flag", s.file, i+1, line)
		case given[name]:
			continue
		}
		if err := f.Set(name, value); err != nil {
			return messages.InvalidField("config", "%s, line %d: %v", s.file, i+1, err)
		}
	}
	return nil
}

// applyMembers says who the node is and who the others are.
func (s *serveFlags) applyMembers(f *pflag.FlagSet, cfg *node.Config) (err error) {
	if cfg.Members, err = membersOf("member", s.members); err != nil {
		return err
	}
	cfg.Join = len(cfg.Contacts) > 0
	switch {
	case len(cfg.Members) == 0 && cfg.Join:
		return messages.InvalidField("member", "--join needs --member for this node")
	case cfg.Join && len(cfg.Members) != 1:
		return messages.InvalidField("member", "with --join, --member names this node alone: the others are learnt")
	case cfg.NonVoting && !cfg.Join:
		return messages.InvalidField("non-voting", "only a node that joins has no vote")
	case len(cfg.Members) == 0:
		return nil
	}
	var self *messages.MemberAddress
	for _, m := range cfg.Members {
		if m.ReplicaId == cfg.ReplicaID {
			self = m
		}
	}
	if self == nil {
		return messages.InvalidField("member", "none is replica %d, which is this node: see --replica-id", cfg.ReplicaID)
	}
	cfg.RaftAddress = self.Raft
	if cfg.PeerListenAddress == "" {
		cfg.PeerListenAddress = self.Peer
	}
	if !f.Changed("listen") {
		cfg.ClientAddress = self.Client
	}
	if !cfg.Join {
		cfg.InitialMembers = map[uint64]string{}
		for _, m := range cfg.Members {
			cfg.InitialMembers[m.ReplicaId] = m.Raft
		}
	}
	return nil
}

// nodeTLS turns on TLS between nodes: for Raft and for peers.
func (s *serveFlags) nodeTLS(cfg *node.Config) error {
	if s.nodeCA == "" && s.nodeCert == "" && s.nodeKey == "" {
		return nil
	}
	if _, err := os.Stat(s.nodeCA); err != nil {
		return messages.InvalidField("node-ca", "%v", err)
	}
	files := certs.Files{Cert: s.nodeCert, Key: s.nodeKey, CA: s.nodeCA, Logger: slog.Default()}
	var err error
	if cfg.PeerServerTLS, err = files.ServerTLS(); err == nil {
		cfg.PeerClientTLS, err = files.ClientTLS()
	}
	if err != nil {
		return messages.InvalidField("node-cert", "%v", err)
	}
	cfg.RaftCAFile, cfg.RaftCertFile, cfg.RaftKeyFile = s.nodeCA, s.nodeCert, s.nodeKey
	return nil
}

func (s *serveFlags) clientTLS() (*tls.Config, error) {
	if s.tlsCert == "" && s.tlsKey == "" {
		if s.tlsPool != "" {
			return nil, messages.InvalidField("tls-client-ca", "needs --tls-cert and --tls-key")
		}
		return nil, nil
	}
	if s.tlsPool != "" {
		if _, err := os.Stat(s.tlsPool); err != nil {
			return nil, messages.InvalidField("tls-client-ca", "%v", err)
		}
	}
	config, err := certs.Files{Cert: s.tlsCert, Key: s.tlsKey, CA: s.tlsPool, Optional: s.tlsOptional, Logger: slog.Default()}.ServerTLS()
	if err != nil {
		return nil, messages.InvalidField("tls-cert", "%v", err)
	}
	return config, nil
}

// check refuses what node.Config understands otherwise, or would name by a field of Go.
func (s *serveFlags) check(cfg *node.Config) error {
	switch {
	case cfg.Dir == "":
		return messages.InvalidField("data-dir", "must not be empty")
	case cfg.ReplicaID == 0:
		return messages.InvalidField("replica-id", "must be more than 0")
	}
	for _, l := range []struct {
		flag  string
		value int64
	}{
		{"connections-max", int64(cfg.Sessions.ConnectionsMax)}, {"connects-per-node", int64(cfg.Sessions.ConnectsPerNode)},
		{"connects-per-client", int64(cfg.Sessions.ConnectsPerClient)}, {"churn-per-node", cfg.Sessions.ChurnPerNode},
		{"churn-per-client", cfg.Sessions.ChurnPerClient}, {"unread-bytes-max", cfg.Sessions.QueueBytesPerNode},
	} {
		if l.value < 1 {
			return messages.InvalidField(l.flag, "%d, at least 1", l.value).WithLimit(1)
		}
	}
	for _, a := range []struct{ flag, address string }{{"listen", cfg.ClientAddress}, {"admin", cfg.AdminAddress}} {
		if a.address == "" && a.flag == "admin" {
			continue
		}
		if _, _, err := net.SplitHostPort(a.address); err != nil {
			return messages.InvalidField(a.flag, "%q is not HOST:PORT", a.address)
		}
	}
	return nil
}
