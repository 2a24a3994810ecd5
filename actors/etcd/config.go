package etcd

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Stream is one connection to a session of this node. Send and Recv may be used by one
// goroutine each; Close ends both.
type Stream interface {
	Send(*messages.ClientMessage) error
	Recv() (*messages.ServerMessage, error)
	Close() error
}

// Facts are what the node knows about itself at this moment. They do not change.
type Facts struct {
	// Ready is false while the node cannot serve yet.
	Ready       bool
	ClusterID   []byte
	ReplicaID   uint64
	LeaderID    uint64 // 0: none known
	RaftTerm    uint64
	Applied     uint64 // index of the log
	Revision    uint64
	ClusterName string
	Version     string
}

// Config says what the endpoint serves. Dial, Now and Facts are required.
type Config struct {
	// Dial opens a connection to this node's sessions, for a client that has shown this
	// certificate. It must not pass for one of the node's own process, which nobody asks for
	// rights. The token is shown on it.
	Dial func(context.Context, Client) (Stream, error)
	// Now is the node's monotonic clock.
	Now func() time.Duration
	// HashPassword returns what is stored of a password. nil: users cannot be added, nor their
	// passwords changed.
	HashPassword func(password string) (string, error)
	// Facts is called for every answer and must be cheap.
	Facts func() Facts
	// URL is where clients are told that this endpoint is; those of other members are learnt
	// from the members.
	URL string
	// TokenTTL is how long a token is good for that Authenticate hands out. 0: as long as the
	// node likes.
	TokenTTL time.Duration
	// TLS is the listener's; nil for plain text.
	TLS *tls.Config
	// Connections is how many connections to sessions the calls of a client share. Default: 4.
	Connections int
	// ProgressInterval is how often an idle watch that asked for it is told how far it has
	// come. Default: 10 minutes, as etcd's; at least 100 ms.
	ProgressInterval time.Duration
	// RequestBytesMax bounds a request. Default: 17 MiB, above every limit of the store.
	RequestBytesMax int
	// Logger is told what goes wrong. nil: nobody.
	Logger *slog.Logger
	// HandshakeFailed hears of connections whose TLS handshake failed, on any goroutine.
	// nil: nobody does.
	HandshakeFailed func(from net.Addr, err error)
}

const (
	// requestTimeout is what a call may take in the node, as etcd's 5 s plus two elections.
	requestTimeout = 7 * time.Second
	// minProgressInterval is etcd's too.
	minProgressInterval = 100 * time.Millisecond
)

func (c Config) withDefaults() Config {
	if c.Connections <= 0 {
		c.Connections = 4
	}
	if c.ProgressInterval <= 0 {
		c.ProgressInterval = 10 * time.Minute
	}
	c.ProgressInterval = max(c.ProgressInterval, minProgressInterval)
	if c.RequestBytesMax <= 0 {
		c.RequestBytesMax = messages.ValueBytesCeiling + 1<<20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.HandshakeFailed == nil {
		c.HandshakeFailed = func(net.Addr, error) {}
	}
	return c
}
