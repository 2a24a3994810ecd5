package transport

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// Handshakes counts the TLS handshakes that failed at a kind of listener, over all of the
// process, and says whose. It may be used from any goroutine.
type Handshakes struct {
	listener string
	failed   atomic.Uint64
	refusals Refusals
}

// Kinds of listeners whose handshakes are counted. Raft counts its own.
var (
	ClientHandshakes = &Handshakes{listener: "clients"}
	PeerHandshakes   = &Handshakes{listener: "peers"}
	EtcdHandshakes   = &Handshakes{listener: "etcd"}
)

// handshakeTextMax bounds what is said of a failure: it may quote the other side.
const handshakeTextMax = 200

// Failed notes that the handshake of a connection from there failed.
func (h *Handshakes) Failed(l *slog.Logger, from net.Addr, err error) {
	h.failed.Add(1)
	text := fmt.Sprintf("TLS at the listener for %s: %v", h.listener, err)
	h.refusals.Add(l, hostOf(from), text[:min(len(text), handshakeTextMax)])
}

// WriteMetrics writes how many handshakes failed at each kind of listener, in the
// Prometheus text format.
func WriteMetrics(w io.Writer) {
	const name = "concord_tls_handshakes_failed_total"
	fmt.Fprintf(w, "# TYPE %s counter\n", name)
	for _, h := range []*Handshakes{ClientHandshakes, PeerHandshakes, EtcdHandshakes} {
		fmt.Fprintf(w, "%s{listener=%q} %d\n", name, h.listener, h.failed.Load())
	}
}

// Credentials are those of a gRPC server with this configuration, which notes what fails.
func (h *Handshakes) Credentials(config *tls.Config, l *slog.Logger) credentials.TransportCredentials {
	return &notedCreds{credentials.NewTLS(config.Clone()), h, l}
}

type notedCreds struct {
	credentials.TransportCredentials
	to     *Handshakes
	logger *slog.Logger
}

func (c *notedCreds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	from := raw.RemoteAddr() // gRPC closes it
	secure, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		c.to.Failed(c.logger, from, err)
	}
	return secure, info, err
}

func (c *notedCreds) Clone() credentials.TransportCredentials {
	return &notedCreds{c.TransportCredentials.Clone(), c.to, c.logger}
}
