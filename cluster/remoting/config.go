package remoting

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/concord-kv/concord/cluster/transport"
)

// Config configures an endpoint. Certificate, Roots and one of Listen and
// Listener are required: there is no endpoint without mutual TLS.
type Config struct {
	// Listen is the host:port to listen on. Instead of it, Listener is a listener
	// that exists; the endpoint closes it.
	Listen   string
	Listener net.Listener
	// Address is the host:port that peers dial and that the certificate names;
	// default the listener's address.
	Address string
	// Certificate shows who we are, as server and as client. It must name Address.
	Certificate tls.Certificate
	// Roots are the authorities of peers.
	Roots *x509.CertPool
	// Follow, when set, gives both of them anew for each connection, so that they can be
	// replaced while the endpoint runs. It may be called from any goroutine.
	Follow func() (tls.Certificate, *x509.CertPool)
	// AnyPort accepts a certificate that names the host alone, for services on
	// ephemeral ports. Services on one host can then pretend to be each other.
	AnyPort bool
	// ReceiveBytesMax bounds one batch; default what the largest message needs.
	ReceiveBytesMax int
	// ConnectionsMax bounds incoming connections; default 1024.
	ConnectionsMax int
	// SessionsMax and SessionsPerPeerMax bound the sessions of a node; default 4096
	// and 64.
	SessionsMax, SessionsPerPeerMax int
	// HandshakeTimeout bounds, each for itself, TLS, the wait for a connect request,
	// and dialling a peer. Default 5 s.
	HandshakeTimeout time.Duration
	// Logger hears of refusals, at most one a second once there are many; default
	// slog.Default().
	Logger *slog.Logger
}

// identity is the certificate and the roots that count now.
func (c *Config) identity() (tls.Certificate, *x509.CertPool) {
	if c.Follow != nil {
		return c.Follow()
	}
	return c.Certificate, c.Roots
}

func (c Config) withDefaults(receiveBytes int) (Config, error) {
	c.Certificate, c.Roots = c.identity()
	if len(c.Certificate.Certificate) == 0 || c.Roots == nil {
		return c, errors.New("remoting: a certificate and roots are required")
	}
	if (c.Listen == "") == (c.Listener == nil) {
		return c, errors.New("remoting: one of Listen and Listener is required")
	}
	if c.ReceiveBytesMax <= 0 {
		c.ReceiveBytesMax = receiveBytes
	}
	if c.ConnectionsMax <= 0 {
		c.ConnectionsMax = 1024
	}
	if c.SessionsMax <= 0 {
		c.SessionsMax = 4096
	}
	if c.SessionsPerPeerMax <= 0 {
		c.SessionsPerPeerMax = 64
	}
	if c.HandshakeTimeout <= 0 {
		c.HandshakeTimeout = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// What fits into one batch: see linkBytesMax and batchBytesMax for why no batch of
// ours is larger.
const (
	nodeReceiveBytes   = transport.ClientMessageBytesMax + envelopeExtra
	clientReceiveBytes = transport.ServerMessageBytesMax + envelopeExtra
)
