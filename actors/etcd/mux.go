package etcd

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// mux takes connections of one listener apart: those that speak HTTP/2 go to gRPC, the
// others to the JSON gateway. With TLS the handshake is done here and says which it is.
type mux struct {
	listener net.Listener
	tls      *tls.Config
	logger   *slog.Logger
	failed   func(from net.Addr, err error) // a handshake
	grpc     *fed
	http     *fed
	ctx      context.Context // until close
	cancel   context.CancelFunc
	once     sync.Once
	wait     sync.WaitGroup
}

// sniffTimeout is what a connection has to say what it is.
const sniffTimeout = 10 * time.Second

// preface is how every HTTP/2 connection without TLS begins.
const preface = "PRI * HTTP/2.0"

func newMux(l net.Listener, cfg Config) *mux {
	m := &mux{listener: l, logger: cfg.Logger, failed: cfg.HandshakeFailed}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if cfg.TLS != nil {
		m.tls = cfg.TLS.Clone()
		m.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	m.grpc, m.http = newFed(m), newFed(m)
	return m
}

func (m *mux) grpcListener() net.Listener { return m.grpc }
func (m *mux) httpListener() net.Listener { return m.http }

// accept runs until the listener is closed.
func (m *mux) accept() {
	for {
		c, err := m.listener.Accept()
		if err != nil {
			if m.ctx.Err() != nil {
				m.wait.Wait()
				return
			}
			m.logger.Warn("etcd endpoint: a connection was not accepted", "error", err)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors: others will close
			continue
		}
		m.wait.Go(func() { m.sort(c) })
	}
}

// sort gives a connection to whom it is for.
func (m *mux) sort(c net.Conn) {
	stop := context.AfterFunc(m.ctx, func() { _ = c.Close() })
	defer stop()
	late := time.AfterFunc(sniffTimeout, func() { _ = c.Close() })
	to, conn, err := m.sniff(c)
	if err != nil || !late.Stop() || !stop() {
		_ = c.Close() // it said nothing that we understand, or the endpoint is closing
		return
	}
	select {
	case to.conns <- conn:
	case <-to.closed:
		_ = conn.Close()
	}
}

func (m *mux) sniff(c net.Conn) (*fed, net.Conn, error) {
	if m.tls != nil {
		t := tls.Server(c, m.tls)
		if err := t.Handshake(); err != nil {
			m.failed(c.RemoteAddr(), err)
			return nil, nil, err
		}
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			return m.grpc, t, nil
		}
		return m.http, t, nil
	}
	b := &buffered{Conn: c, r: bufio.NewReader(c)}
	for n := 1; ; n++ {
		head, err := b.r.Peek(n)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case head[n-1] != preface[n-1]:
			return m.http, b, nil
		case n == len(preface):
			return m.grpc, b, nil
		}
	}
}

func (m *mux) close() {
	m.once.Do(func() {
		m.cancel()
		_ = m.listener.Close() // it may be closed already
	})
}

// buffered is a connection whose first bytes were looked at.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// fed is a listener whose connections come from the mux.
type fed struct {
	mux    *mux
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newFed(m *mux) *fed {
	return &fed{mux: m, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (f *fed) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

func (f *fed) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

func (f *fed) Addr() net.Addr { return f.mux.listener.Addr() }

// credentials tell gRPC about a handshake that has been done.
func (m *mux) credentials() credentials.TransportCredentials { return handshaken{secure: m.tls != nil} }

type handshaken struct{ secure bool }

func (h handshaken) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if t, ok := c.(*tls.Conn); ok {
		return c, credentials.TLSInfo{
			State:          t.ConnectionState(),
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}, nil
	}
	return c, plain{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}, nil
}

func (h handshaken) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("etcd: these credentials are a server's")
}

func (h handshaken) Info() credentials.ProtocolInfo {
	if h.secure {
		return credentials.ProtocolInfo{SecurityProtocol: "tls"}
	}
	return credentials.ProtocolInfo{SecurityProtocol: "insecure"}
}

func (h handshaken) Clone() credentials.TransportCredentials { return h }
func (h handshaken) OverrideServerName(string) error         { return nil }

// plain says that a connection is in plain text.
type plain struct{ credentials.CommonAuthInfo }

func (plain) AuthType() string { return "insecure" }
