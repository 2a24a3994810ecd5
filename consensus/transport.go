package consensus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// inboundMax bounds the connections that are open to a replica: each peer has one for
// messages and one for each snapshot.
const inboundMax = 256

// transports makes the transport of one replica. It is dragonboat's TransportFactory.
type transports struct {
	cfg   DragonboatConfig
	guard *guard
	certs *raftCerts // nil without TLS
	made  func(*transport)
}

// Create implements config.TransportFactory.
func (f transports) Create(host config.NodeHostConfig, batches raftio.MessageHandler, chunks raftio.ChunkHandler) raftio.ITransport {
	ctx, cancel := context.WithCancel(context.Background())
	t := &transport{
		transports: f, listen: host.GetListenAddress(), deployment: host.GetDeploymentID(),
		batches: batches, chunks: chunks, ctx: ctx, cancel: cancel, conns: map[net.Conn]bool{},
	}
	t.catchUp = newCatchUp(f.cfg.ReplicaID, t.own, t.after)
	if f.made != nil {
		f.made(t)
	}
	return t
}

// Validate implements config.TransportFactory.
func (transports) Validate(address string) bool { return addressesSeen.valid(address) }

// transport carries batches of messages and chunks of snapshots between replicas over
// TCP. Each connection begins with a greeting that says which replica dials, from which
// address; the other side answers or says why it will not. After that a connection for
// messages goes one way; on one for a snapshot each chunk is answered.
type transport struct {
	transports
	listen     string
	deployment uint64
	batches    raftio.MessageHandler
	chunks     raftio.ChunkHandler
	catchUp    *catchUp

	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	closed   bool
	conns    map[net.Conn]bool // inbound
}

var (
	_ config.TransportFactory = transports{}
	_ raftio.ITransport       = (*transport)(nil)
)

// Name implements raftio.ITransport.
func (t *transport) Name() string { return "concord-tcp" }

// Start implements raftio.ITransport: it listens.
func (t *transport) Start() error {
	l, err := net.Listen("tcp", t.listen)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.listener = l
	t.mu.Unlock()
	t.workers.Go(func() { t.accept(l) })
	return nil
}

func (t *transport) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the peer is gone already
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-t.ctx.Done():
				return
			}
		}
		if t.certs != nil {
			conn = tls.Server(conn, t.certs.server())
		}
		t.mu.Lock()
		if t.closed || len(t.conns) >= inboundMax {
			t.mu.Unlock()
			_ = conn.Close()
			continue
		}
		t.conns[conn] = true
		t.workers.Go(func() {
			t.serve(conn)
			_ = conn.Close()
			t.mu.Lock()
			delete(t.conns, conn)
			t.mu.Unlock()
		})
		t.mu.Unlock()
	}
}

// Close implements raftio.ITransport. No handler runs after it.
func (t *transport) Close() error {
	t.cancel()
	t.mu.Lock()
	t.closed = true
	if t.listener != nil {
		_ = t.listener.Close()
	}
	for conn := range t.conns {
		if c, ok := conn.(*tls.Conn); ok {
			conn = c.NetConn() // says no farewell, which could wait
		}
		_ = conn.Close()
	}
	t.mu.Unlock()
	t.workers.Wait()
	return nil
}

// dial connects to target and greets it.
func (t *transport) dial(ctx context.Context, target string, kind byte) (net.Conn, *frameReader, error) {
	ctx, cancel := context.WithTimeout(ctx, greetMax)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", target) // sets TCP_NODELAY
	if err != nil {
		return nil, nil, err
	}
	if t.certs != nil {
		c, err := t.certs.client(target)
		if err != nil {
			_ = conn.Close()
			return nil, nil, err
		}
		secure := tls.Client(conn, c)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, nil, err
		}
		conn = secure
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	in := newFrameReader(conn, greetingMax)
	if err := t.greet(conn, in, target, kind); err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, in, nil
}

func (t *transport) greet(conn net.Conn, in *frameReader, target string, kind byte) error {
	if err := writeSmall(conn, kind, t.self().encode()); err != nil {
		return err
	}
	why, other, err := readAnswer(in)
	if err != nil {
		return err
	}
	switch {
	case why == notMetYet:
	case why != "":
		t.guard.sayOnce(fmt.Sprintf("%s does not take this replica's messages: %s", target, why))
	case t.guard.isAt(other.Replica, target):
		// One that lost its files must not be told what the old one has said to hold:
		// Raft panics at that.
		if why = t.guard.another(other); why != "" {
			t.guard.refuse(why)
		}
	}
	if why != "" {
		return errors.New(why)
	}
	return nil
}

// self is what this replica says of itself.
func (t *transport) self() greeting {
	g := greeting{Deployment: t.deployment, Replica: t.cfg.ReplicaID, Address: t.cfg.RaftAddress}
	if x := t.guard.incarnations.Load(); x != nil {
		g.Incarnation = x.self
	}
	return g
}

// GetConnection implements raftio.ITransport.
func (t *transport) GetConnection(ctx context.Context, target string) (raftio.IConnection, error) {
	conn, _, err := t.dial(ctx, target, frameHello)
	if err != nil {
		return nil, err
	}
	return &batchConn{conn: conn, catchUp: t.catchUp}, nil
}

// GetSnapshotConnection implements raftio.ITransport.
func (t *transport) GetSnapshotConnection(ctx context.Context, target string) (raftio.ISnapshotConnection, error) {
	conn, in, err := t.dial(ctx, target, frameSnap)
	if err != nil {
		return nil, err
	}
	return &chunkConn{conn: conn, in: in, catchUp: t.catchUp, closing: t.ctx}, nil
}

// batchConn sends batches, each with one write, from a buffer that is used again.
type batchConn struct {
	conn    net.Conn
	catchUp *catchUp
	kept    []raftpb.Message
	buf     []byte
}

// Close implements raftio.IConnection.
func (c *batchConn) Close() {
	_ = c.conn.Close()
	c.catchUp.forget(c)
}

// SendMessageBatch implements raftio.IConnection. An error leaves it open whether the
// batch arrived; without one, messages to a member that is behind may have been left out.
func (c *batchConn) SendMessageBatch(batch raftpb.MessageBatch) (err error) {
	c.kept = c.catchUp.pass(c, c.kept[:0], batch.Requests)
	defer func() { clear(c.kept) }()
	if len(c.kept) == 0 {
		return nil
	}
	batch.Requests = c.kept
	c.buf, err = send(c.conn, c.buf, frameBatch, batchMax, batch.SizeUpperLimit(), &batch)
	return err
}
