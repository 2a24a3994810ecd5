package transport

import (
	"context"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"

	"github.com/concord-kv/concord/messages"
)

// GRPCServer serves concord.v1.Sessions on one listener. Make it with ServeGRPC.
type GRPCServer struct {
	server   *grpc.Server
	listener *limitListener
	handler  Handler
	opts     ServerOptions
	counters serverCounters
	done     chan struct{}
	err      error // set before done is closed

	mu       sync.Mutex
	stopping bool
	streams  map[*serverStream]struct{}
	handlers sync.WaitGroup
}

type serverCounters struct {
	connections, streams                        atomic.Int64
	connectionsRefused, connectionsIdle         atomic.Uint64
	connectionsPaced                            atomic.Uint64
	streamsRefused, helloTimeouts, handlerPanic atomic.Uint64
	bytesReceived, bytesSent                    atomic.Uint64
}

// ServerStats are what a GRPCServer has seen since it started; Connections and
// Streams are those open now.
type ServerStats struct {
	Connections, Streams int64
	// ConnectionsRefused were beyond a limit; ConnectionsIdle were closed because
	// they carried no stream; ConnectionsPaced had to wait for their turn.
	ConnectionsRefused, ConnectionsIdle, ConnectionsPaced uint64
	// StreamsRefused came while stopping. HelloTimeouts sent no first message in
	// time.
	StreamsRefused, HelloTimeouts uint64
	HandlerPanics                 uint64
	BytesReceived, BytesSent      uint64
}

// ServeGRPC serves h on lis and owns lis from here on. It returns at once; use
// Shutdown or Stop to end it.
func ServeGRPC(lis net.Listener, h Handler, opts ServerOptions) *GRPCServer {
	opts = opts.withDefaults()
	s := &GRPCServer{
		handler: h,
		opts:    opts,
		done:    make(chan struct{}),
		streams: make(map[*serverStream]struct{}),
	}
	s.listener = newLimitListener(lis, opts, &s.counters)
	s.server = grpc.NewServer(serverOptions(opts)...)
	s.server.RegisterService(&serviceDesc, s)
	go func() {
		defer close(s.done)
		if err := s.server.Serve(s.listener); !s.isStopping() {
			s.err = err
		}
	}()
	return s
}

func serverOptions(o ServerOptions) []grpc.ServerOption {
	so := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(o.ReceiveBytesMax),
		grpc.MaxConcurrentStreams(uint32(o.StreamsPerConnectionMax)),
		grpc.MaxHeaderListSize(headerListBytesMax),
		grpc.ConnectionTimeout(o.HandshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMin, PermitWithoutStream: true}),
		grpc.ReadBufferSize(bufferBytes),
		grpc.WriteBufferSize(bufferBytes),
		grpc.StaticStreamWindowSize(serverWindowBytes),
		grpc.StaticConnWindowSize(serverWindowBytes),
		// A client does not choose the codec.
		grpc.ForceServerCodecV2(Codec()),
		experimental.BufferPool(buffers),
	}
	if o.TLS != nil {
		so = append(so, grpc.Creds(ClientHandshakes.Credentials(o.TLS, o.Logger)))
	}
	return so
}

// Addr returns the address that clients dial.
func (s *GRPCServer) Addr() net.Addr { return s.listener.Addr() }

// Done is closed when the server no longer serves.
func (s *GRPCServer) Done() <-chan struct{} { return s.done }

// Err returns why the server stopped serving: nil after Shutdown or Stop. Valid
// once Done is closed.
func (s *GRPCServer) Err() error { return s.err }

// Stats returns the counters.
func (s *GRPCServer) Stats() ServerStats {
	c := &s.counters
	return ServerStats{
		Connections:        c.connections.Load(),
		Streams:            c.streams.Load(),
		ConnectionsRefused: c.connectionsRefused.Load(),
		ConnectionsIdle:    c.connectionsIdle.Load(),
		ConnectionsPaced:   c.connectionsPaced.Load(),
		StreamsRefused:     c.streamsRefused.Load(),
		HelloTimeouts:      c.helloTimeouts.Load(),
		HandlerPanics:      c.handlerPanic.Load(),
		BytesReceived:      c.bytesReceived.Load(),
		BytesSent:          c.bytesSent.Load(),
	}
}

// Shutdown stops accepting, closes every stream with node_stopping, and waits
// until their handlers have returned. When ctx ends first, connections are cut,
// the handlers still waited for, and ctx's error returned.
func (s *GRPCServer) Shutdown(ctx context.Context) error {
	for _, st := range s.stop() {
		st.Close(messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node is stopping").Detail)
	}
	// A socket that is still silent would hold up a graceful stop.
	_ = s.listener.Close()
	s.listener.cutSilent()
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		s.server.GracefulStop()
		s.handlers.Wait()
	}()
	var err error
	select {
	case <-quiet:
	case <-ctx.Done():
		err = ctx.Err()
		s.server.Stop()
		<-quiet
	}
	<-s.done
	return err
}

// Stop cuts every connection and waits until the handlers have returned.
func (s *GRPCServer) Stop() {
	for _, st := range s.stop() {
		st.Close(nil)
	}
	s.server.Stop()
	s.handlers.Wait()
	<-s.done
}

func (s *GRPCServer) stop() []*serverStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	open := make([]*serverStream, 0, len(s.streams))
	for st := range s.streams {
		open = append(open, st)
	}
	return open
}

func (s *GRPCServer) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

func (s *GRPCServer) add(st *serverStream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		s.counters.streamsRefused.Add(1)
		return false
	}
	s.streams[st] = struct{}{}
	s.handlers.Add(1)
	s.counters.streams.Add(1)
	return true
}

func (s *GRPCServer) remove(st *serverStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	s.handlers.Done()
	s.counters.streams.Add(-1)
}

// connect serves one stream. The handler has a goroutine of its own because gRPC
// ends a stream, and with it a blocked Recv, only when this method returns.
func (s *GRPCServer) connect(ss grpc.ServerStream) error {
	st := newServerStream(ss)
	if !s.add(st) {
		return statusOf(messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node is stopping").Detail)
	}
	if st.conn != nil {
		st.conn.streamOpened()
		defer st.conn.streamClosed()
	}
	// Tells the dialer that the stream is accepted.
	if err := ss.SendHeader(nil); err != nil {
		s.remove(st)
		return err
	}
	st.hello = time.AfterFunc(s.opts.HandshakeTimeout, func() { s.helloTimeout(st) })
	go s.handle(st)
	select {
	case <-st.closing:
	case <-ss.Context().Done():
	}
	return st.finish()
}

func (s *GRPCServer) helloTimeout(st *serverStream) {
	s.counters.helloTimeouts.Add(1)
	s.listener.refusals.Add(s.opts.Logger, hostOfAddress(st.peer.Address), "no first message in time")
	st.Close(messages.NewError(messages.Code_CODE_TIMEOUT, "no first message in time").Detail)
}

// handle runs the handler. A panic there ends this stream, not the node: sessions
// hold nothing that outlives them.
func (s *GRPCServer) handle(st *serverStream) {
	defer s.remove(st)
	defer st.Close(nil)
	defer func() {
		if p := recover(); p != nil {
			s.counters.handlerPanic.Add(1)
			s.opts.Logger.Error("session handler panicked", "peer", st.peer.Address, "panic", p, "stack", string(debug.Stack()))
			st.Close(messages.UnknownOutcome(messages.Code_CODE_INTERNAL, "the session failed").Detail)
		}
	}()
	s.handler(st)
}
