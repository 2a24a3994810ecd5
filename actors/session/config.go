package session

import (
	"errors"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

// Config is what the gateway and its sessions need. The PIDs and Node are
// required.
type Config struct {
	Replica, Apply, Watch *actor.PID
	// Operator answers the requests of operators; nil: they are refused.
	Operator  *actor.PID
	Node      Node
	Limits    Limits
	Telemetry Telemetry    // nil: none
	Logger    *slog.Logger // nil: silent
	// Recovery says whether a secret is the one in the node's own files: whoever knows
	// it owns the node. nil: nobody does. It may be called from any goroutine.
	Recovery func(secret []byte) bool
	// Random fills the keys that sign tokens. Default: the system's.
	Random func([]byte)
	// GatewayProps and SessionProps are added to the props of the gateway and of
	// each session: a dispatcher, a middleware.
	GatewayProps, SessionProps []actor.PropsOption

	// ProcessorTime is what the process has used of the processors since it began. From it
	// the gateway knows whether they are busy: then reads that take long leave them to the
	// other calls for most of the time. nil: they are never taken to be.
	ProcessorTime func() time.Duration
	// Elapsed tells how long a read took, finer than the node's clock does; it is used for
	// that rest alone. nil: no read is taken to have taken time.
	Elapsed func() time.Duration

	passwords *passwords // the gateway's
}

// Node tells sessions about the node they are on. It is called from many
// goroutines, for every write and read, and must be cheap.
type Node interface {
	Facts() Facts
	// Auth is who may do what, as of a recent apply: never older than any event or
	// answer of it that the session has been given. nil: nobody has ever been asked.
	Auth() *auth.Table
	// Now is the lease clock as the node estimates it, and the time of day.
	Now() state.Now
}

// Facts are about the node at this moment. What they point to must not change.
type Facts struct {
	// Ready is false until the node has caught up with its cluster for the first
	// time and knows the rest: clients are sent elsewhere.
	Ready       bool
	ClusterID   []byte
	Incarnation uint64
	ReplicaID   uint64
	LeaderID    uint64 // 0: none known
	RaftTerm    uint64
	// LeaderEndpoint is the leader's client endpoint, if known; Endpoints are those
	// of all members that are known.
	LeaderEndpoint string
	Endpoints      []string
	// ApplyVersion is that of the cluster's rules as of a recent apply: a write that came
	// with a later one is refused. 0: not known, and nothing is refused for it.
	ApplyVersion uint32
	Version      string
	UptimeMs     int64
	// ApplyLongestMs is the longest that the log has waited for apply, ApplyRecentMs in
	// about the last minute.
	ApplyLongestMs, ApplyRecentMs int64
	// LeaderSilentMs is how long ago the node last heard of a leader; 0 on the leader.
	LeaderSilentMs int64
	Watches        uint64
	// Cluster is the replicated configuration as of a recent apply. nil: defaults.
	Cluster *messages.ClusterConfig
}

// Limits bound what clients may hold of this node. The zero value of each means
// its default.
type Limits struct {
	// ConnectionsMax is for the node. Default: 10,000.
	ConnectionsMax int
	// CallsPerConnection and BytesPerConnection bound the calls in flight of one
	// connection, by number and by the size of the requests; one call is always
	// admitted. Beyond, a call is refused as overloaded. Defaults: 4,096 and 32 MiB.
	CallsPerConnection int
	BytesPerConnection int64
	// CallsPerNode and BytesPerNode are the same for all connections together.
	// Defaults: 262,144 and 256 MiB.
	CallsPerNode int64
	BytesPerNode int64
	// WritesPerNode are the writes in flight that clients share fairly. It should be what
	// the replica lets wait. Default: 16,384.
	WritesPerNode int64
	// ConnectionsPerClient is for one user, or, without users, one certificate or one
	// host. Default: three quarters of ConnectionsMax, and 8 at least.
	ConnectionsPerClient int
	// ConnectsPerClient and ConnectsPerNode are for the listeners: how many connections of
	// one host, and of all, begin to be served in a second, after a burst of eight seconds'
	// worth. The others wait. Defaults: 250 and 500.
	ConnectsPerClient, ConnectsPerNode int
	// QueueBytesMax bounds what waits for a client that does not read; beyond, its
	// stream is closed. Half of it holds reads back first. Default: 16 MiB, or two
	// of the largest values if that is more.
	QueueBytesMax int64
	// QueueBytesPerNode bounds what waits for all clients together, those that do not read
	// above all. Beyond a quarter of it each is allowed its share before its reads are held
	// back; beyond all of it the streams that have more than their share are closed, as slow
	// consumers. Default: 256 MiB.
	QueueBytesPerNode int64
	// ChurnPerClient bounds the watches that one client begins in a second, and what costs
	// the node about as much: three that are cancelled, fifty calls refused, half of one
	// that shows credentials. Beyond, after a burst of five seconds' worth, the client's
	// connections are read slower, and watches refused as overloaded with the time to wait.
	// Default: 2,000. ChurnPerNode is for all clients together; those that churn share it
	// alike. Default: 8,000.
	ChurnPerClient, ChurnPerNode int64
	// StallMs closes a stream whose client takes nothing of what waits for it for
	// this long. Default: 30,000.
	StallMs int64
	// HeartbeatMs is told to clients: both sides send one at least this often, those
	// that come after a thousand others up to five times more rarely. A client that is
	// silent for messages.HeartbeatsMissedMax of them is closed. Default: 1,000.
	HeartbeatMs int64
}

const (
	// frameReadAhead is how many messages of a client may be in its session's
	// mailbox; the stream is not read further until one is done with.
	frameReadAhead = 16
	// retryAfterMs is what an overloaded node asks its clients to wait.
	retryAfterMs = 50
	// helloMs is how long a connection may take to say hello.
	helloMs = 10_000
	// graceMs is how long after its deadline a call is left to the replica to
	// answer. Then the session does.
	graceMs = 2_000
	// tickMs is how often sessions are told the time.
	tickMs = 250
	// barriersMax is how many read barriers a session has under way: reads share
	// one when they come faster than barriers do.
	barriersMax = 4
)

func (c Config) validate() (Config, error) {
	if c.Replica == nil || c.Apply == nil || c.Watch == nil || c.Node == nil {
		return c, errors.New("session: Config needs Replica, Apply, Watch and Node")
	}
	c.Limits.setDefaults()
	if c.Telemetry == nil {
		c.Telemetry = noTelemetry{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (l *Limits) setDefaults() {
	def := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	if l.ConnectionsMax <= 0 {
		l.ConnectionsMax = messages.ConnectionsPerNodeDefault
	}
	if l.CallsPerConnection <= 0 {
		l.CallsPerConnection = messages.CallsPerConnectionDefault
	}
	def(&l.BytesPerConnection, 32<<20)
	def(&l.CallsPerNode, 262_144)
	def(&l.BytesPerNode, 256<<20)
	def(&l.WritesPerNode, 16_384)
	if l.ConnectionsPerClient <= 0 {
		l.ConnectionsPerClient = max(min(l.ConnectionsMax, 8), l.ConnectionsMax*3/4)
	}
	def(&l.QueueBytesMax, 16<<20)
	def(&l.QueueBytesPerNode, 256<<20)
	def(&l.ChurnPerClient, 2_000)
	def(&l.ChurnPerNode, 8_000)
	def(&l.StallMs, 30_000)
	def(&l.HeartbeatMs, messages.HeartbeatMs)
}

// Telemetry counts what sessions do. Its methods are called from many goroutines
// and must not block.
type Telemetry interface {
	// Connections: so many are open.
	Connections(open int)
	// Frame: a frame of so many operations and bytes came.
	Frame(operations, bytes int)
	// Refused: an operation was refused before it was passed on.
	Refused(code messages.Code)
	// Closed: a connection ended, for this reason; CODE_OK when the client left.
	Closed(code messages.Code)
}

type noTelemetry struct{}

func (noTelemetry) Connections(int)       {}
func (noTelemetry) Frame(int, int)        {}
func (noTelemetry) Refused(messages.Code) {}
func (noTelemetry) Closed(messages.Code)  {}
