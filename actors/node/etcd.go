package node

import (
	"context"
	"crypto/tls"
	"maps"
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
	// Endpoints are the etcd endpoints of the members, by replica id, told to clients.
	// Default: this node's.
	Endpoints map[uint64]string
}

// EtcdAddr returns the address that clients of etcd dial; empty without one.
func (n *Node) EtcdAddr() string {
	if n.etcd == nil {
		return ""
	}
	return n.etcd.Addr().String()
}

// openEtcd serves clients of etcd, if the configuration says so.
func (n *Node) openEtcd() error {
	cfg := n.cfg.Etcd
	if cfg == nil {
		return nil
	}
	listener, err := listen(cfg.Address)
	if err != nil {
		return err
	}
	if listener == nil {
		return messages.InvalidField("Etcd.Address", "an address is needed")
	}
	endpoints := maps.Clone(cfg.Endpoints)
	if endpoints == nil {
		endpoints = map[uint64]string{}
	}
	if endpoints[n.cfg.ReplicaID] == "" {
		endpoints[n.cfg.ReplicaID] = listener.Addr().String()
	}
	n.etcd, err = etcd.Serve(listener, etcd.Config{
		Dial:         n.dialForEtcd,
		Now:          func() time.Duration { return time.Duration(n.cfg.Clock.MonotonicMs()) * time.Millisecond },
		HashPassword: func(password string) (string, error) { return credential.HashPassword(password, 0) },
		Facts:        n.etcdFacts, Endpoints: func() map[uint64]string { return endpoints },
		TLS: cfg.TLS, ProgressInterval: cfg.ProgressInterval, Logger: n.cfg.Logger,
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
