package remoting

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/concord-kv/concord/cluster/certs"
)

// serverCreds admit connections: a number of them, each with a certificate.
type serverCreds struct {
	credentials.TransportCredentials
	max      int64
	open     *atomic.Int64
	counters *counters
}

func newServerCreds(c Config, n *counters) *serverCreds {
	config := certs.ServerTLS(c.Certificate, c.Roots)
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := certs.ServerTLS(c.identity())
		now.NextProtos = []string{"h2"} // what gRPC adds to the outer one
		return now, nil
	}
	return &serverCreds{
		TransportCredentials: credentials.NewTLS(config),
		max:                  int64(c.ConnectionsMax),
		open:                 new(atomic.Int64),
		counters:             n,
	}
}

var errTooManyConnections = errors.New("remoting: too many connections")

func (s *serverCreds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if s.open.Add(1) > s.max {
		s.open.Add(-1)
		s.counters.add(RefusedConnections)
		raw.Close()
		return nil, nil, errTooManyConnections
	}
	secure, info, err := s.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		s.open.Add(-1)
		s.counters.add(RefusedTLS)
		raw.Close()
		return nil, nil, err
	}
	c := &countedConn{Conn: secure, open: s.open}
	return c, authInfo{TLSInfo: info.(credentials.TLSInfo), conn: c}, nil
}

func (s *serverCreds) Clone() credentials.TransportCredentials {
	c := *s
	c.TransportCredentials = s.TransportCredentials.Clone()
	return &c
}

type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// authInfo carries the connection, so that a stream can cut it.
type authInfo struct {
	credentials.TLSInfo
	conn net.Conn
}

// clientOf returns the verified certificate and the connection behind a stream.
func clientOf(ctx context.Context) (*x509.Certificate, net.Conn) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, nil
	}
	info, ok := p.AuthInfo.(authInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil, nil
	}
	return info.State.VerifiedChains[0][0], info.conn
}

// clientCreds make sure that whoever answers speaks for the address that was
// dialled, port included: a host name alone would let one service of a host
// stand in for another.
type clientCreds struct {
	credentials.TransportCredentials
	address  string
	anyPort  bool
	counters *counters
}

func newClientCreds(c Config, address string, n *counters) *clientCreds {
	cert, roots := c.identity()
	return &clientCreds{
		TransportCredentials: credentials.NewTLS(certs.ClientTLS(roots, &cert)),
		address:              address,
		anyPort:              c.AnyPort,
		counters:             n,
	}
}

func (d *clientCreds) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := d.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		var cert *tls.CertificateVerificationError
		if errors.As(err, &cert) {
			d.counters.add(RefusedDialled)
		}
		return nil, nil, err
	}
	leaf := info.(credentials.TLSInfo).State.VerifiedChains[0][0]
	if err := certs.NamesAddress(leaf, d.address, d.anyPort); err != nil {
		d.counters.add(RefusedDialled)
		secure.Close()
		return nil, nil, err
	}
	return secure, info, nil
}

func (d *clientCreds) Clone() credentials.TransportCredentials {
	c := *d
	c.TransportCredentials = d.TransportCredentials.Clone()
	return &c
}
