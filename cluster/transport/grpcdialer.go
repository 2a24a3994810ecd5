package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"

	"github.com/concord-kv/concord/messages"
)

// NewGRPCDialer returns a dialer of gRPC endpoints, "host:port". Each Dial makes a
// TCP connection of its own, so that a stream never waits behind another, and
// tries once: whoever dials again decides when.
func NewGRPCDialer(opts DialerOptions) Dialer {
	return &grpcDialer{opts.withDefaults()}
}

type grpcDialer struct{ opts DialerOptions }

func (d *grpcDialer) Dial(ctx context.Context, endpoint string) (ClientStream, error) {
	if ctx.Err() != nil {
		return nil, dialError(ctx, endpoint, ctx.Err())
	}
	creds := insecure.NewCredentials()
	var shake *handshake
	config := d.opts.TLS
	if d.opts.CurrentTLS != nil {
		config = d.opts.CurrentTLS()
	}
	if config != nil {
		shake = &handshake{TransportCredentials: credentials.NewTLS(config.Clone())}
		creds = shake
	}
	cc, err := grpc.NewClient("passthrough:///"+endpoint, d.dialOptions(creds)...)
	if err != nil {
		return nil, messages.InvalidField("endpoint", "%v", err)
	}
	// The stream outlives ctx, which bounds only this call.
	sctx, cancel := context.WithCancel(context.Background())
	unbind := context.AfterFunc(ctx, cancel)
	fail := func(err error) (ClientStream, error) {
		unbind()
		cancel()
		_ = cc.Close()
		if shake != nil && shake.failed() {
			e := messages.NewError(messages.Code_CODE_UNAUTHENTICATED, "dial %s", endpoint)
			e.Err = err
			return nil, e
		}
		return nil, dialError(ctx, endpoint, err)
	}
	cs, err := cc.NewStream(sctx, &connectDesc, "/"+serviceName+"/"+connectMethod)
	if err != nil {
		return fail(err)
	}
	if md, err := cs.Header(); err != nil || md == nil {
		// No header: the node ended the stream at once, and its status says why.
		if err == nil {
			err = cs.RecvMsg(new(messages.ServerMessage))
		}
		return fail(err)
	}
	if !unbind() {
		return fail(ctx.Err())
	}
	return &clientStream{cs: cs, cc: cc, cancel: cancel}, nil
}

func (d *grpcDialer) dialOptions(creds credentials.TransportCredentials) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		// The resolver passes the name through: the system's dialler tries all its
		// addresses, and no proxy of the environment comes between.
		grpc.WithContextDialer(d.opts.DialContext),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
		grpc.WithReadBufferSize(bufferBytes),
		grpc.WithWriteBufferSize(bufferBytes),
		grpc.WithStaticStreamWindowSize(windowBytes),
		grpc.WithStaticConnWindowSize(windowBytes),
		grpc.WithMaxHeaderListSize(headerListBytesMax),
		grpc.WithIdleTimeout(0),
		experimental.WithBufferPool(buffers),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDisableHealthCheck(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(d.opts.ReceiveBytesMax),
			grpc.ForceCodecV2(Codec()),
		),
	}
}

// handshake notes whether TLS failed: gRPC reports it as unavailable, and the
// caller would try for ever with the wrong certificate.
type handshake struct {
	credentials.TransportCredentials
	mu  sync.Mutex
	bad bool
}

func (h *handshake) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, c)
	// A peer that goes away during the handshake is merely unavailable.
	var network net.Error
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) && !errors.As(err, &network) {
		h.mu.Lock()
		h.bad = true
		h.mu.Unlock()
	}
	return secure, info, err
}

func (h *handshake) Clone() credentials.TransportCredentials { return h }

func (h *handshake) failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bad
}

// clientStream is the client's end of a gRPC stream.
type clientStream struct {
	cs     grpc.ClientStream
	cc     *grpc.ClientConn
	cancel context.CancelFunc

	sendMu sync.Mutex
	once   sync.Once

	mu     sync.Mutex
	closed bool
	linger *time.Timer
	end    error // what Recv answers from now on
}

func (c *clientStream) Send(m *messages.ClientMessage) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.isClosed() {
		return errEnded()
	}
	if err := c.cs.SendMsg(m); err != nil {
		e := errEnded()
		if !errors.Is(err, io.EOF) {
			e.Err = err
		}
		return e
	}
	return nil
}

func (c *clientStream) Recv() (*messages.ServerMessage, error) {
	if c.end != nil {
		return nil, c.end
	}
	m := new(messages.ServerMessage)
	err := c.cs.RecvMsg(m)
	if err == nil {
		return m, nil
	}
	if c.isClosed() {
		c.end = errClosedHere()
	} else {
		c.end = streamError(err)
	}
	c.release()
	return nil, c.end
}

// Close ends the sending side; the node then ends the stream, and Recv releases
// the connection. The timer does so when nobody reads or the node does not end.
func (c *clientStream) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.linger = time.AfterFunc(closeGrace, c.release)
	c.mu.Unlock()
	// A Send that waits holds the lock; it ends with the timer.
	if c.sendMu.TryLock() {
		_ = c.cs.CloseSend()
		c.sendMu.Unlock()
	}
	return nil
}

func (c *clientStream) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *clientStream) release() {
	c.once.Do(func() {
		c.mu.Lock()
		if c.linger != nil {
			c.linger.Stop()
		}
		c.mu.Unlock()
		c.cancel()
		_ = c.cc.Close()
	})
}
