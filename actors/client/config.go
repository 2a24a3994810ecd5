package client

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// Config of a Client. Only Endpoints is required.
type Config struct {
	// Endpoints of nodes, as host:port for the default dialer. The client uses one at a
	// time, starts with a random one and goes to the next when one does not serve.
	Endpoints []string
	// Discover adds the endpoints that nodes tell of, to be tried after those above. Leave
	// it out where members are reached under other addresses than they know.
	Discover bool
	// Prefer says which node to be connected to where there is a choice; default AnyNode.
	Prefer Preference
	// Dialer opens connections; default gRPC. An embedded node brings its own.
	Dialer transport.Dialer
	// TLS of the default dialer; nil for plain text.
	TLS *tls.Config
	// CurrentTLS, unless it is nil, is asked for each connection, by any goroutine,
	// instead of TLS. certs.Files.ClientTLS makes one that follows its files, so that a
	// client need not be restarted when its certificate or the authority is replaced.
	CurrentTLS func() *tls.Config
	// Credentials say who the client is, where its certificate does not. Default: nobody
	// asks.
	Credentials CredentialSource
	// Name is shown to operators; at most 256 bytes.
	Name string

	// Timeout bounds a call whose context has no deadline; default 5 s.
	Timeout time.Duration
	// DialTimeout bounds one attempt to connect, the greeting included; default 2 s.
	DialTimeout time.Duration
	// SessionTTL is the lease of the exactly-once session; default 15 s. A client that is
	// cut off for longer learns of its writes in flight that nobody knows their outcome.
	SessionTTL time.Duration

	// OneShot gives each write a random idempotency key instead of opening a session:
	// cheaper for a process that writes once and ends.
	OneShot bool
	// NewKey makes the key of a one-shot write; random makes one of 128 bits, which is
	// the default.
	NewKey func(random func() string) string
	// Settle is how long a one-shot write whose outcome is unknown at its deadline is
	// looked up, and fenced off so that it cannot come later; default 0: not at all.
	Settle time.Duration

	// WindowMax bounds the session's writes in flight; default 1,000, at most 1,024.
	WindowMax int
	// CallsMax bounds the calls that this client holds; one more is refused as
	// overloaded, not applied. Default 65,536.
	CallsMax int

	// Logger hears when the client is connected and why it no longer is. Default: nobody.
	Logger *slog.Logger
	// Clock tells time; default SystemClock.
	Clock Clock
	// Random gives jitter and idempotency keys. Default a generator seeded by the system.
	// It is called by one goroutine at a time.
	Random func() uint64
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Endpoints) == 0 {
		return c, messages.InvalidField("endpoints", "at least one is needed")
	}
	if n := len(c.Name); n > messages.ClientNameBytesMax {
		return c, messages.InvalidField("name", "%d bytes, at most %d", n, messages.ClientNameBytesMax)
	}
	if c.Dialer == nil {
		c.Dialer = transport.NewGRPCDialer(transport.DialerOptions{TLS: c.TLS, CurrentTLS: c.CurrentTLS})
	}
	if c.Timeout <= 0 {
		c.Timeout = messages.RequestTimeoutMsDefault * time.Millisecond
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = 2 * time.Second
	}
	if c.SessionTTL <= 0 {
		c.SessionTTL = 15 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = SystemClock()
	}
	if c.Random == nil {
		c.Random = systemRandom()
	}
	// Jitter and keys are drawn by several goroutines.
	var mu sync.Mutex
	draw := c.Random
	c.Random = func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return draw()
	}
	return c, nil
}

func systemRandom() func() uint64 {
	var seed [32]byte
	rand.Read(seed[:]) // never fails
	return mathrand.NewChaCha8(seed).Uint64
}

// NewIdempotencyKey returns a random key of 128 bits for one write.
func (c *Client) NewIdempotencyKey() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], c.cfg.Random())
	binary.BigEndian.PutUint64(b[8:], c.cfg.Random())
	return hex.EncodeToString(b[:])
}
