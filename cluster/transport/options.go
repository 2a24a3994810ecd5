package transport

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Limits and times that both ends share.
const (
	// ClientMessageBytesMax bounds what a node takes in one message: one operation
	// with the largest value there may be, and what surrounds it.
	ClientMessageBytesMax = messages.ValueBytesCeiling + messages.TxnOverheadBytes
	// ServerMessageBytesMax bounds what a client takes in one message: an event
	// with its record and the one before it, both of the largest size.
	ServerMessageBytesMax = 2*messages.ValueBytesCeiling + 2*messages.TxnOverheadBytes + messages.AnswerBytesMax

	// A connection is pinged when it was silent for keepaliveTime and is dead when
	// the answer takes longer than keepaliveTimeout. A client that pings more often
	// than keepaliveMin is cut off.
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 3 * time.Second
	keepaliveMin     = 5 * time.Second

	// closeGrace is how long a closed stream waits for the other side to read.
	closeGrace = time.Second

	// headerListBytesMax bounds the headers of a request: ours have a few hundred
	// bytes.
	headerListBytesMax = 16 << 10

	bufferBytes = 32 << 10
	windowBytes = 1 << 20
	// serverWindowBytes is what a client may send ahead of what its session reads: the
	// node holds as much of each that is made to wait. A message that is larger has the
	// room that it needs once the session waits for it.
	serverWindowBytes = 256 << 10
)

// ServerOptions configure ServeGRPC. The zero value works: no TLS, the defaults
// below.
type ServerOptions struct {
	// TLS of the listener; nil for plain text. With ClientAuth set to require and
	// verify, the certificate's name becomes Peer.Name. The caller's value is not
	// changed.
	TLS *tls.Config
	// ReceiveBytesMax bounds one message from a client; default
	// ClientMessageBytesMax. A node whose values are smaller should say so: it
	// bounds what each connection can make it buffer.
	ReceiveBytesMax int
	// ConnectionsMax bounds open connections; one more is closed at once. Default
	// 4096.
	ConnectionsMax int
	// ConnectionsPerHostMax bounds those from one address; default ConnectionsMax.
	ConnectionsPerHostMax int
	// ConnectsMax bounds the connections that begin to be served in a second, and
	// ConnectsPerHostMax those from one address, after a burst of eight seconds' worth;
	// the others wait, and hosts take turns. Defaults 500 and 250.
	ConnectsMax, ConnectsPerHostMax int
	// StreamsPerConnectionMax bounds the streams of one connection. Our dialer uses
	// one each. Default 16.
	StreamsPerConnectionMax int
	// HandshakeTimeout bounds, each for itself, the TLS and HTTP/2 handshake, the
	// wait for a stream on a connection that has none, and the wait for a stream's
	// first message. Default 5 s.
	HandshakeTimeout time.Duration
	// Logger hears of handlers that panicked. Default slog.Default().
	Logger *slog.Logger
}

func (o ServerOptions) withDefaults() ServerOptions {
	if o.ReceiveBytesMax <= 0 {
		o.ReceiveBytesMax = ClientMessageBytesMax
	}
	if o.ConnectionsMax <= 0 {
		o.ConnectionsMax = 4096
	}
	if o.ConnectionsPerHostMax <= 0 {
		o.ConnectionsPerHostMax = o.ConnectionsMax
	}
	if o.ConnectsMax <= 0 {
		o.ConnectsMax = 500
	}
	if o.ConnectsPerHostMax <= 0 {
		o.ConnectsPerHostMax = min(250, o.ConnectsMax)
	}
	if o.StreamsPerConnectionMax <= 0 {
		o.StreamsPerConnectionMax = 16
	}
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// DialerOptions configure NewGRPCDialer. The zero value works: no TLS, the
// defaults below.
type DialerOptions struct {
	// TLS of the client; nil for plain text. ServerName defaults to the host that
	// is dialled. The caller's value is not changed.
	TLS *tls.Config
	// CurrentTLS, unless it is nil, is asked for each connection, by any goroutine,
	// instead of TLS: certs.Files makes one that follows its files.
	CurrentTLS func() *tls.Config
	// ReceiveBytesMax bounds one message from the node; default
	// ServerMessageBytesMax.
	ReceiveBytesMax int
	// DialContext makes the connections; default TCP. A simulation brings its own.
	DialContext func(ctx context.Context, address string) (net.Conn, error)
}

func (o DialerOptions) withDefaults() DialerOptions {
	if o.ReceiveBytesMax <= 0 {
		o.ReceiveBytesMax = ServerMessageBytesMax
	}
	if o.DialContext == nil {
		o.DialContext = func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}
	return o
}
