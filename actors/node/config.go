package node

import (
	"crypto/tls"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/lni/vfs"

	"github.com/concord-kv/concord/actors/replica"
	"github.com/concord-kv/concord/actors/session"
	"github.com/concord-kv/concord/actors/watch"
	"github.com/concord-kv/concord/cluster/peers"
	"github.com/concord-kv/concord/cluster/remoting"
	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// Config says what a node is. The zero value of a field stands for the default
// that its comment names; Start validates all of it once and changes none of it.
// Nothing in here is read by the replicated state machine: what that reads is
// messages.ClusterConfig, which lives in the log.
type Config struct {
	// Dir holds the node's log and snapshots, and nothing else. Required. It belongs
	// to one replica for ever.
	Dir string
	// ReplicaID is this node's number in the cluster, from 1. Default: 1. The id of
	// a node whose files were lost is never used again.
	ReplicaID uint64
	// RaftAddress is how the other members reach this node: an IPv4 address or a
	// DNS name, and a port. It cannot change later. Empty: the node stays alone; it
	// listens on a free port of the loopback interface and no member can be added.
	RaftAddress string
	// RaftListenAddress is where to listen, if not at RaftAddress.
	RaftListenAddress string
	// RaftCAFile, RaftCertFile and RaftKeyFile turn on mutual TLS between members.
	// The CA signs for nothing else. Without TLS the address must not be reachable
	// by anyone else.
	RaftCAFile, RaftCertFile, RaftKeyFile string
	// InitialMembers are the first members of a new cluster, by replica id, the same
	// on each of them. Default: this node alone.
	InitialMembers map[uint64]string
	// Join starts a node that was added to a running cluster; NonVoting one that was
	// added without a vote. Both stay set at restarts.
	Join, NonVoting bool
	// PeerListenAddress is where other nodes connect to pass proposals on. Empty: no
	// other node can reach this one, which must then stay alone. It is the endpoint of
	// nodes: without TLS it must not be reachable by anyone else.
	PeerListenAddress string
	// PeerServerTLS and PeerClientTLS turn on mutual TLS there; both or none. PeerClientTLS
	// is asked for each connection, by any goroutine.
	PeerServerTLS *tls.Config
	PeerClientTLS func() *tls.Config
	// Members are where members are reached, this one included, as far as the
	// configuration says; the rest is learnt from other nodes.
	Members []*messages.MemberAddress
	// Contacts are peer addresses of nodes to learn the members from.
	Contacts []string
	// MendTornLog drops the last record of the log if a loss of power cut it off, and
	// keeps it in a file beside the log. Only for a node without RaftAddress: any other
	// one may have told somebody that it has the record.
	MendTornLog bool
	// ClusterName keeps clusters apart that could reach each other by mistake: nodes of
	// another name are not heard. It cannot change later. Default: none.
	ClusterName string
	// RaftTiming decides how fast a lost leader is replaced. Default: see
	// consensus.DragonboatConfig.
	RaftTiming consensus.Timing
	// SnapshotBytes of applied entries lead to a snapshot. Default:
	// consensus.SnapshotBytesDefault.
	SnapshotBytes int64
	// SnapshotKeepEntries stay in the log behind a snapshot, for members that are a little
	// behind; one that lacks more gets the snapshot. Default:
	// consensus.SnapshotKeepEntriesDefault.
	SnapshotKeepEntries uint64

	// Bootstrap is the configuration that a new cluster starts with; it is used once
	// in a cluster's life, by whichever member leads first. Default:
	// messages.DefaultClusterConfig.
	Bootstrap *messages.ClusterConfig
	// Incarnation of a new cluster. Default: 1.
	Incarnation uint64

	// ClientAddress is where clients connect by gRPC, "host:port"; port 0 takes a
	// free one. Empty: only clients in this process, by Dialer.
	ClientAddress string
	// ClientTLS is the listener's; nil for plain text.
	ClientTLS *tls.Config
	// Actors, when set, also serves services that run protoactor actors themselves,
	// behind a firewall and always under mutual TLS: see package remoting. Its Logger
	// defaults to the node's.
	Actors *remoting.Config
	// Etcd, when set, also serves clients of etcd.
	Etcd *Etcd
	// Endpoints are the client endpoints of the members, told to clients. Default:
	// this node's.
	Endpoints map[uint64]string

	// AdminAddress serves /metrics and /healthz over HTTP. Empty: not at all. It has
	// no authentication: keep it on an address that only operators reach.
	AdminAddress string
	// AdminPprof adds /debug/pprof to it.
	AdminPprof bool

	// Replica bounds what waits for the log.
	Replica replica.Limits
	// Sessions bounds what clients may hold of this node.
	Sessions session.Limits
	// Watch bounds the watches that clients may have on this node.
	Watch watch.Limits
	// ExpiryTick is the longest time between two looks for expired leases, and
	// between two ticks of the lease clock. Default 1 s, at least 50 ms.
	ExpiryTick time.Duration
	// ClockInterval is how often actors are told the time: the precision of
	// deadlines. Default 20 ms, from 1 ms to 1 s.
	ClockInterval time.Duration
	// StartTimeout bounds Start's wait for a node that can serve. Default 60 s;
	// negative: Start does not wait, see Node.Ready.
	StartTimeout time.Duration
	// CloseTimeout bounds each step of Close that waits for somebody. Default 5 s.
	CloseTimeout time.Duration

	// Version is shown to clients and operators.
	Version string
	// Logger gets what the node has to say. Default: nowhere.
	Logger *slog.Logger

	// Clock is the time. Default: the machine's.
	Clock Clock
	// Fail is called once, when an actor that must not fail has failed; it must not
	// return. Default: print the stack and exit the process with status 70. Where it
	// does return, in tests, the node answers nothing any more and can be closed.
	Fail func(reason any, stack []byte)
	// FS is the file system, for tests. Default: the real one.
	FS vfs.FS

	// Seams replace what a simulation must hold in its hand. nil outside of one.
	Seams *Seams

	connections int // what the listeners of clients take, if not what Sessions says
}

// Seams are where a simulation takes hold of a node. The zero value of each field
// leaves what production has.
type Seams struct {
	// OpenLog opens the log in place of dragonboat; Dir and the Raft settings are
	// then not used. The node closes what it returns.
	OpenLog func(consensus.Applier, consensus.Listener) (consensus.Log, error)
	// Props are added to those of each actor: a dispatcher, a mailbox. name is the
	// actor's; the sessions share "session".
	Props func(system *actor.ActorSystem, name string) []actor.PropsOption
	// Random is where the nonces of the lease clock and a new cluster's id come
	// from. It is called by one goroutine at a time and never returns the same twice.
	Random func() uint64
	// Peers stands for the connections between nodes. PeerListenAddress is then only this
	// node's name for the others.
	Peers *peers.Transport
	// ApplyVersion is the highest version of the state machine's rules that this node
	// says it knows, and stops beyond: an older build, as it were. Default:
	// messages.ApplyVersion.
	ApplyVersion uint32
}

// withDefaults returns the configuration that is used, or what is wrong with it.
// Errors are *messages.Error and name the field.
func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" && (c.Seams == nil || c.Seams.OpenLog == nil) {
		return c, messages.InvalidField("Dir", "a directory is needed")
	}
	if c.ReplicaID == 0 {
		c.ReplicaID = 1
	}
	if c.RaftAddress == "" && (len(c.InitialMembers) > 1 || c.Join) {
		return c, messages.InvalidField("RaftAddress", "a node with other members needs an address")
	}
	if c.MendTornLog && c.RaftAddress != "" {
		return c, messages.InvalidField("MendTornLog", "a node of a cluster may have told the others of its last record: replace it by a new one under a new id")
	}
	if err := c.Replica.Validate(); err != nil {
		return c, messages.InvalidField("Replica", "%v", err)
	}
	if err := c.Watch.Validate(); err != nil {
		return c, err.WithField("Watch." + err.Detail.Field)
	}
	if c.Bootstrap == nil {
		c.Bootstrap = messages.DefaultClusterConfig()
	}
	if c.Incarnation == 0 {
		c.Incarnation = 1
	}
	if c.PeerListenAddress == "" && (len(c.InitialMembers) > 1 || c.Join) {
		return c, messages.InvalidField("PeerListenAddress", "a node with other members needs one: they pass proposals on")
	}
	if (c.PeerServerTLS == nil) != (c.PeerClientTLS == nil) {
		return c, messages.InvalidField("PeerClientTLS", "TLS between nodes goes both ways")
	}
	for name, address := range map[string]string{
		"ClientAddress": c.ClientAddress, "AdminAddress": c.AdminAddress, "PeerListenAddress": c.PeerListenAddress,
	} {
		if address == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return c, messages.InvalidField(name, "%v", err)
		}
	}
	for _, d := range []struct {
		name            string
		value           *time.Duration
		def, least, max time.Duration
	}{
		{"ExpiryTick", &c.ExpiryTick, time.Second, 50 * time.Millisecond, time.Minute},
		{"ClockInterval", &c.ClockInterval, 20 * time.Millisecond, time.Millisecond, time.Second},
		{"CloseTimeout", &c.CloseTimeout, 5 * time.Second, 10 * time.Millisecond, time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < d.least || *d.value > d.max {
			return c, messages.InvalidField(d.name, "%v is not in [%v, %v]", *d.value, d.least, d.max)
		}
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = time.Minute
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = SystemClock()
	}
	if c.Fail == nil {
		c.Fail = exitProcess
	}
	seams := Seams{}
	if c.Seams != nil {
		seams = *c.Seams
	}
	if seams.ApplyVersion == 0 {
		seams.ApplyVersion = messages.ApplyVersion
	}
	c.Seams = &seams
	return c, nil
}

// clientConnections is what the listener lets in: somewhat more than sessions take, so
// that one more is told why.
func (c Config) clientConnections() int {
	if c.connections > 0 {
		return c.connections
	}
	if c.Sessions.ConnectionsMax <= 0 {
		return messages.ConnectionsPerNodeDefault + messages.ConnectionsPerNodeDefault/8
	}
	return c.Sessions.ConnectionsMax + max(8, c.Sessions.ConnectionsMax/8)
}

// standaloneRaftAddress is the address that a node without one is known by, to
// itself. Nobody dials it.
const standaloneRaftAddress = "localhost:1"

// dragonboat returns the log's part of the configuration.
func (c Config) dragonboat() (consensus.DragonboatConfig, error) {
	d := consensus.DragonboatConfig{
		Dir: c.Dir, ReplicaID: c.ReplicaID,
		RaftAddress: c.RaftAddress, ListenAddress: c.RaftListenAddress,
		CAFile: c.RaftCAFile, CertFile: c.RaftCertFile, KeyFile: c.RaftKeyFile,
		InitialMembers: c.InitialMembers, Join: c.Join, NonVoting: c.NonVoting,
		Timing: c.RaftTiming, SnapshotBytes: c.SnapshotBytes, SnapshotKeepEntries: c.SnapshotKeepEntries, Logger: c.Logger, FS: c.FS,
	}
	if d.Timing == (consensus.Timing{}) && c.RaftAddress != "" {
		d.Timing = consensus.MultiNodeTiming // alone or not: it may grow
	}
	if c.ClusterName != "" {
		h := fnv.New64a()
		h.Write([]byte(c.ClusterName))
		d.DeploymentID = h.Sum64() | 1<<63 // never 0, which is no name
	}
	if d.RaftAddress == "" {
		port, err := freePort()
		if err != nil {
			return d, fmt.Errorf("node: no free port: %w", err)
		}
		d.RaftAddress, d.ListenAddress = standaloneRaftAddress, fmt.Sprintf("127.0.0.1:%d", port)
	}
	return d, nil
}

// freePort finds a port that nobody listens on. Somebody else may take it before
// it is used; opening the log then fails and is tried again.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
