package node

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/concord-kv/concord/actors/etcd"
	"github.com/concord-kv/concord/cluster/credential"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// Etcd says where and how a node serves clients of etcd.
type Etcd struct {
	// Address is where they connect, "host:port"; port 0 takes a free one.
	Address string
	// TLS is the listener's; nil for plain text.
	TLS *tls.Config
	// ProgressInterval is how often an idle watch that asked for it is told how far it has
	// come. Default: 10 minutes.
	ProgressInterval time.Duration
	// Advertise is the address told to clients, "host:port", when they see it under another
	// one. Default: Address, with the host of the node's address for clients or for Raft if
	// Address has none.
	Advertise string
	// TokenTTL is how long a token is good for that a client gets for its password. Default:
	// an hour; at least a second.
	TokenTTL time.Duration
}

// EtcdAddr returns the address that clients of etcd dial; empty without one.
func (n *Node) EtcdAddr() string {
	if n.etcd == nil {
		return ""
	}
	return n.etcd.Addr().String()
}

// listenEtcd listens for clients of etcd, if the configuration says so.
func (n *Node) listenEtcd() (net.Listener, error) {
	cfg := n.cfg.Etcd
	switch {
	case cfg == nil:
		return nil, nil
	case cfg.Address == "":
		return nil, messages.InvalidField("Etcd.Address", "an address is needed")
	}
	if ttl := cfg.TokenTTL.Milliseconds(); cfg.TokenTTL != 0 && (ttl < messages.TokenTTLMinMs || ttl > messages.TokenTTLMaxMs) {
		return nil, messages.InvalidField("Etcd.TokenTTL", "%v is not within a second and 90 days", cfg.TokenTTL)
	}
	return listen(cfg.Address)
}

// etcdURL is what clients of etcd are told to dial; empty without a listener.
func (n *Node) etcdURL(l net.Listener) string {
	if l == nil {
		return ""
	}
	scheme := "http://"
	if n.cfg.Etcd.TLS != nil {
		scheme = "https://"
	}
	if n.cfg.Etcd.Advertise != "" {
		return scheme + n.cfg.Etcd.Advertise
	}
	at := l.Addr().String()
	host, port, err := net.SplitHostPort(at)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return scheme + at
	}
	// It listens everywhere: where others find this node is known from its other addresses.
	self := n.cfg.self("", n.cfg.ClientAddress, "")
	for _, other := range []string{self.GetClient(), self.GetRaft()} {
		host, _, err := net.SplitHostPort(other)
		if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
			return scheme + net.JoinHostPort(host, port)
		}
	}
	return scheme + at
}

// openEtcd serves clients of etcd, if the configuration says so.
func (n *Node) openEtcd(listener net.Listener) (err error) {
	if listener == nil {
		return nil
	}
	cfg := n.cfg.Etcd
	own := n.etcdURL(listener)
	n.etcd, err = etcd.Serve(transport.Bounded(listener, n.cfg.clientConnections()), etcd.Config{
		Dial:         n.dialForEtcd,
		Now:          func() time.Duration { return time.Duration(n.cfg.Clock.MonotonicMs()) * time.Millisecond },
		HashPassword: func(password string) (string, error) { return credential.HashPassword(password, 0) },
		Facts:        n.etcdFacts, URL: own, TokenTTL: cfg.TokenTTL,
		TLS: cfg.TLS, ProgressInterval: cfg.ProgressInterval, Logger: n.cfg.Logger,
		HandshakeFailed: func(from net.Addr, err error) { transport.EtcdHandshakes.Failed(n.cfg.Logger, from, err) },
	})
	return err
}

// dialForEtcd connects a client of etcd to a session. It is none of this process: it is
// asked who it is, as any other.
func (n *Node) dialForEtcd(ctx context.Context, c etcd.Client) (etcd.Stream, error) {
	peer := transport.Peer{Kind: transport.KindEtcd, Address: "etcd", Name: c.Certificate}
	return transport.NewInProcessFor(n.gateway.Serve, peer).Dial(ctx, "etcd")
}

func (n *Node) etcdFacts() etcd.Facts {
	f := n.facts.Facts()
	return etcd.Facts{
		Ready: f.Ready, ClusterID: f.ClusterID, ReplicaID: f.ReplicaID, LeaderID: f.LeaderID, RaftTerm: f.RaftTerm,
		Applied: n.log.Status().AppliedIndex, Revision: n.facts.applied.Load().Revision,
		ClusterName: n.cfg.ClusterName, Version: f.Version,
	}
}

// closeEtcd ends that endpoint: its calls in flight are answered first.
func (n *Node) closeEtcd(ctx context.Context) error {
	if n.etcd != nil {
		n.etcd.Close(ctx)
	}
	return nil
}
