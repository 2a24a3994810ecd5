package sim

import (
	"context"
	"net"
	"sync"

	"github.com/concord-kv/concord/cluster/transport"
)

// In gRPC mode clients and nodes speak as they do in production, over the same
// simulated connections. gRPC has goroutines that cut its bytes into writes as they
// come to run: a seed then decides the faults and nearly all of the order, but two
// runs need not be the same byte for byte.

// listener hands a node's gRPC server the connections that the world made.
type listener struct {
	id    uint64
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newListener(id uint64) *listener {
	return &listener{id: id, conns: make(chan net.Conn, 1024), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return address(endpoint(l.id)) }

// serveGRPC opens the node's gRPC server.
func (n *Node) serveGRPC() {
	n.listener = newListener(n.id)
	n.server = transport.ServeGRPC(n.listener, n.node.Serve, transport.ServerOptions{})
}

// accept serves a connection, whichever way the world's clients speak.
func (n *Node) accept(c *conn) {
	if n.server != nil {
		n.listener.conns <- c
		return
	}
	serve := n.node.Serve
	go func() {
		s := &codecServer{conn: c}
		serve(s)
		s.Close(nil)
	}()
}

// grpcDialer is a client's.
func (n *network) grpcDialer(client string) transport.Dialer {
	return transport.NewGRPCDialer(transport.DialerOptions{
		DialContext: func(ctx context.Context, to string) (net.Conn, error) { return n.dialFor(ctx, client, 0, to) },
	})
}
