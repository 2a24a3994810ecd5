package transport

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/messages"
)

// dialOnly dials and returns only the error.
func dialOnly(d Dialer, endpoint string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	c, err := d.Dial(ctx, endpoint)
	if err == nil {
		c.Close()
		drain(c)
	}
	return err
}

func mustEcho(t *testing.T, c ClientStream, n uint64) {
	t.Helper()
	if err := c.Send(beat(n)); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Recv(); err != nil || m.GetHeartbeat().GetNumber() != n {
		t.Fatalf("echo %d: %v %v", n, m, err)
	}
}

// Whatever a stranger writes to the port, the connection is closed in time and
// the clients that are there do not notice.
func TestGarbageOnThePort(t *testing.T) {
	s := serve(t, echo, ServerOptions{HandshakeTimeout: 200 * time.Millisecond})
	c := mustDial(t, NewGRPCDialer(DialerOptions{}), s.Addr().String())
	mustEcho(t, c, 1)

	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	noise := make([]byte, 64<<10)
	r := rand.NewChaCha8([32]byte{7})
	r.Read(noise)
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, text := range map[string]string{
		"silence":                "",
		"noise":                  string(noise),
		"HTTP/1":                 "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"half a preface":         preface[:10],
		"preface then silence":   preface,
		"preface then noise":     preface + string(noise),
		"settings then silence":  preface + settings,
		"settings then noise":    preface + settings + string(noise),
		"frame of 16 MiB":        preface + settings + "\xff\xff\xff\x00\x00\x00\x00\x00\x01",
		"data on no stream":      preface + settings + "\x00\x00\x05\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00",
		"headers that are noise": preface + settings + "\x00\x00\x20\x01\x05\x00\x00\x00\x01" + string(noise[:32]),
		"window update overflow": preface + settings + strings.Repeat("\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff", 3),
		"thousands of resets":    preface + settings + strings.Repeat("\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08", 5000),
		"TLS to a plain port":    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(waitMax))
			go io.WriteString(conn, text)
			if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
				t.Fatal("the connection is still open")
			}
			mustEcho(t, c, 2)
		})
	}
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}

// rawCodec sends bytes as they are, where a client sends messages.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

func rawStream(t *testing.T, addr, method string) (grpc.ClientStream, *grpc.ClientConn) {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	t.Cleanup(cancel)
	cs, err := cc.NewStream(ctx, &connectDesc, method)
	if err != nil {
		t.Fatal(err)
	}
	return cs, cc
}

func endCode(cs grpc.ClientStream) codes.Code {
	var err error
	for err == nil {
		err = cs.RecvMsg(new([]byte))
	}
	if err == io.EOF {
		return codes.OK
	}
	return status.Code(err)
}

func TestHostileStreams(t *testing.T) {
	refused := make(chan error, 1)
	s := serve(t, func(s ServerStream) {
		for {
			m, err := s.Recv()
			if err != nil {
				if err != io.EOF {
					select {
					case refused <- err:
					default:
					}
				}
				return
			}
			s.Send(echoOf(m))
		}
	}, ServerOptions{ReceiveBytesMax: 1 << 20, HandshakeTimeout: time.Second})
	c := mustDial(t, NewGRPCDialer(DialerOptions{}), s.Addr().String())
	mustEcho(t, c, 1)
	addr := s.Addr().String()
	const connect = "/" + serviceName + "/" + connectMethod

	t.Run("no such method", func(t *testing.T) {
		cs, _ := rawStream(t, addr, "/"+serviceName+"/Nothing")
		if code := endCode(cs); code != codes.Unimplemented {
			t.Fatal(code)
		}
	})
	t.Run("bytes that are no message", func(t *testing.T) {
		cs, _ := rawStream(t, addr, connect)
		cs.SendMsg([]byte("\xff\xff\xff\xff"))
		if code := endCode(cs); code != codes.Internal {
			t.Fatal(code)
		}
		if err := await(t, refused, "refusal"); messages.CodeOf(err) != messages.Code_CODE_PROTOCOL {
			t.Fatal(err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		cs, _ := rawStream(t, addr, connect)
		cs.SendMsg(make([]byte, 1<<20+1))
		if code := endCode(cs); code != codes.ResourceExhausted {
			t.Fatal(code)
		}
		if err := await(t, refused, "refusal"); messages.CodeOf(err) != messages.Code_CODE_TOO_LARGE {
			t.Fatal(err)
		}
	})
	t.Run("no first message", func(t *testing.T) {
		cs, _ := rawStream(t, addr, connect)
		if code := endCode(cs); code != codes.DeadlineExceeded {
			t.Fatal(code)
		}
		if n := s.Stats().HelloTimeouts; n != 1 {
			t.Fatalf("%d hello timeouts", n)
		}
	})
	mustEcho(t, c, 2)
}

func TestOversizeBothWays(t *testing.T) {
	s := serve(t, echo, ServerOptions{ReceiveBytesMax: 64 << 10})
	c := mustDial(t, NewGRPCDialer(DialerOptions{}), s.Addr().String())
	c.Send(bigFrame(65 << 10))
	if _, err := c.Recv(); messages.CodeOf(err) != messages.Code_CODE_TOO_LARGE {
		t.Fatalf("too large for the node: %v", err)
	}
	c = mustDial(t, NewGRPCDialer(DialerOptions{ReceiveBytesMax: 10}), s.Addr().String())
	f := bigFrame(0)
	for range 10 {
		f.GetFrame().Operations = append(f.GetFrame().Operations, f.GetFrame().Operations[0])
	}
	c.Send(f)
	if _, err := c.Recv(); messages.CodeOf(err) != messages.Code_CODE_TOO_LARGE {
		t.Fatalf("too large for the client: %v", err)
	}
}

func TestLargestValuePasses(t *testing.T) {
	s := serve(t, echo, ServerOptions{})
	c := mustDial(t, NewGRPCDialer(DialerOptions{}), s.Addr().String())
	if err := c.Send(bigFrame(messages.ValueBytesCeiling)); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Recv(); err != nil || len(m.GetReplies().GetReplies()) != 1 {
		t.Fatal(m, err)
	}
}

func TestConnectionLimits(t *testing.T) {
	t.Run("all", func(t *testing.T) { testConnectionLimit(t, ServerOptions{ConnectionsMax: 2}) })
	t.Run("per host", func(t *testing.T) { testConnectionLimit(t, ServerOptions{ConnectionsPerHostMax: 2}) })
}

func testConnectionLimit(t *testing.T, o ServerOptions) {
	s := serve(t, echo, o)
	d := NewGRPCDialer(DialerOptions{})
	a, b := mustDial(t, d, s.Addr().String()), mustDial(t, d, s.Addr().String())
	if err := dialOnly(d, s.Addr().String()); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE ||
		messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
		t.Fatalf("third connection: %v", err)
	}
	mustEcho(t, a, 1)
	mustEcho(t, b, 1)
	if st := s.Stats(); st.ConnectionsRefused == 0 || st.Connections != 2 || st.Streams != 2 {
		t.Fatalf("%+v", st)
	}
	a.Close()
	drain(a)
	deadline := time.Now().Add(waitMax)
	for dialOnly(d, s.Addr().String()) != nil { // the place is free once the node has seen the end
		if time.Now().After(deadline) {
			t.Fatal("the place is not free again")
		}
	}
}

func TestPanicInAHandlerEndsItsStream(t *testing.T) {
	s := serve(t, func(s ServerStream) {
		if m, _ := s.Recv(); m.GetHeartbeat().GetNumber() == 13 {
			panic("thirteen")
		}
		s.Send(heartbeat(1))
		s.Recv()
	}, ServerOptions{Logger: slog.New(slog.DiscardHandler)})
	d := NewGRPCDialer(DialerOptions{})
	good, bad := mustDial(t, d, s.Addr().String()), mustDial(t, d, s.Addr().String())
	bad.Send(beat(13))
	if m, err := bad.Recv(); err != nil || m.GetGoodbye().GetReason().GetCode() != messages.Code_CODE_INTERNAL {
		t.Fatal(m, err)
	}
	mustEcho(t, good, 1)
	if s.Stats().HandlerPanics != 1 {
		t.Fatalf("%+v", s.Stats())
	}
}

func TestDialErrors(t *testing.T) {
	d := NewGRPCDialer(DialerOptions{})
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	free.Close()
	if err := dialOnly(d, nobody); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
		t.Errorf("nobody there: %v", err)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the backlog, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = d.Dial(ctx, mute.Addr().String())
	if messages.CodeOf(err) != messages.Code_CODE_TIMEOUT || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
		t.Errorf("no answer: %v", err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = d.Dial(gone, mute.Addr().String()); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
		t.Errorf("cancelled: %v", err)
	}
	other := grpc.NewServer() // speaks gRPC, not our service
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go other.Serve(lis)
	defer other.Stop()
	if err := dialOnly(d, lis.Addr().String()); messages.CodeOf(err) != messages.Code_CODE_UNSUPPORTED {
		t.Errorf("another service: %v", err)
	}
}

func TestTLS(t *testing.T) {
	ca, err := certs.NewAuthority("dev")
	if err != nil {
		t.Fatal(err)
	}
	alienCA, err := certs.NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *certs.Authority, name string) tls.Certificate {
		p, err := a.Issue(certs.Request{Name: name, Hosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.TLS()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	app, alien := issue(ca, "app"), issue(alienCA, "app")
	names := make(chan string, 1)
	s := serve(t, func(s ServerStream) { names <- s.Peer().Name; echo(s) },
		ServerOptions{TLS: certs.ServerTLS(issue(ca, "node"), ca.Pool()), HandshakeTimeout: waitMax})
	addr := s.Addr().String()

	c := mustDial(t, NewGRPCDialer(DialerOptions{TLS: certs.ClientTLS(ca.Pool(), &app)}), addr)
	mustEcho(t, c, 1)
	if n := await(t, names, "peer"); n != "app" {
		t.Errorf("peer %q", n)
	}
	if err := dialOnly(NewGRPCDialer(DialerOptions{TLS: certs.ClientTLS(alienCA.Pool(), &app)}), addr); messages.CodeOf(err) != messages.Code_CODE_UNAUTHENTICATED {
		t.Errorf("a node of another authority: %v", err)
	}
	for what, o := range map[string]DialerOptions{
		"no certificate":                     {TLS: certs.ClientTLS(ca.Pool(), nil)},
		"a certificate of another authority": {TLS: certs.ClientTLS(ca.Pool(), &alien)},
		"plain text":                         {},
	} {
		// Whether the client still reads why it was refused, after a handshake that was over
		// for it, depends on which end closes first.
		switch err := dialOnly(NewGRPCDialer(o), addr); messages.CodeOf(err) {
		case messages.Code_CODE_UNAVAILABLE, messages.Code_CODE_UNAUTHENTICATED:
		default:
			t.Errorf("%s: %v", what, err)
		}
	}
	mustEcho(t, c, 2)
}

func TestShutdown(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := ServeGRPC(lis, echo, ServerOptions{})
	d := NewGRPCDialer(DialerOptions{})
	c := mustDial(t, d, lis.Addr().String())
	mustEcho(t, c, 1)
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	if m, err := c.Recv(); err != nil || m.GetGoodbye().GetReason().GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatal(m, err)
	}
	if _, err := c.Recv(); messages.CodeOf(err) != messages.Code_CODE_NODE_STOPPING {
		t.Fatal(err)
	}
	if err := await(t, stopped, "end of Shutdown"); err != nil {
		t.Fatal(err)
	}
	if s.Err() != nil || s.Stats().Streams != 0 {
		t.Fatal(s.Err(), s.Stats())
	}
	if err := dialOnly(d, lis.Addr().String()); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
		t.Fatalf("dial after Shutdown: %v", err)
	}
}

// A client that neither reads nor goes away holds nothing up.
func TestShutdownCutsAClientThatDoesNotRead(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	blocked := make(chan struct{})
	s := ServeGRPC(lis, func(s ServerStream) {
		s.Recv()
		big := &messages.ServerMessage{Message: &messages.ServerMessage_WatchBatch{WatchBatch: &messages.WatchBatch{
			Events: []*messages.Event{{Record: &messages.Record{Value: make([]byte, 4<<20)}}},
		}}}
		s.Send(big)
		close(blocked)
		for s.Send(big) == nil {
		}
	}, ServerOptions{})
	c := mustDial(t, NewGRPCDialer(DialerOptions{}), lis.Addr().String())
	c.Send(beat(1))
	await(t, blocked, "first message")
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	if err := await(t, stopped, "end of Shutdown"); err != nil {
		t.Fatal(err)
	}
}

func TestShutdownDoesNotWaitForSilentSockets(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := ServeGRPC(lis, echo, ServerOptions{HandshakeTimeout: time.Hour})
	silent, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	mustEcho(t, mustDial(t, NewGRPCDialer(DialerOptions{}), lis.Addr().String()), 1) // both are accepted
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	if err := await(t, stopped, "end of Shutdown"); err != nil {
		t.Fatal(err)
	}
}

// A client that pings more often than it may is cut off.
func TestTooManyPings(t *testing.T) {
	s := serve(t, echo, ServerOptions{HandshakeTimeout: time.Hour})
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(waitMax))
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"+
		strings.Repeat("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678", 10))
	if _, err := io.Copy(io.Discard, c); isTimeout(err) {
		t.Fatal("still open")
	}
}

// Both ends notice when the network between them swallows everything.
func TestBlackhole(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for two keep-alives")
	}
	t.Parallel()
	ended := make(chan error, 1)
	s := serve(t, func(s ServerStream) {
		for {
			m, err := s.Recv()
			if err != nil {
				ended <- err
				return
			}
			s.Send(echoOf(m))
		}
	}, ServerOptions{})
	between, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer between.Close()
	swallow := make(chan struct{})
	pass := func(to, from net.Conn) {
		b := make([]byte, 4096)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			select {
			case <-swallow:
			default:
				to.Write(b[:n])
			}
		}
	}
	go func() {
		a, err := between.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			a.Close()
			return
		}
		t.Cleanup(func() { a.Close(); b.Close() })
		go pass(a, b)
		go pass(b, a)
	}()
	c := mustDial(t, NewGRPCDialer(DialerOptions{}), between.Addr().String())
	mustEcho(t, c, 1)
	close(swallow)
	start := time.Now()
	if _, err := c.Recv(); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_UNKNOWN {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if messages.CodeOf(err) == messages.Code_CODE_OK {
			t.Fatal(err)
		}
	case <-time.After(2 * (keepaliveTime + keepaliveTimeout)):
		t.Fatal("the node did not notice")
	}
	if took := time.Since(start); took > 2*(keepaliveTime+keepaliveTimeout) {
		t.Fatalf("noticed after %v", took)
	}
}
