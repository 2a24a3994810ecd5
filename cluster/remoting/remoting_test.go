package remoting

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) {
	// The library counts dead letters for a second after the first; the name of
	// that goroutine depends on what the compiler inlined.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/asynkron/protoactor-go/actor.NewThrottle.func1.1"),
		goleak.IgnoreAnyFunction("github.com/asynkron/protoactor-go/actor.NewDeadLetter.NewThrottle.func4.1"))
}

const waitMax = 10 * time.Second

// world is an authority and what it certified.
type world struct {
	t  testing.TB
	ca *certs.Authority
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ca, err := certs.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, ca}
}

func (w *world) issue(name string, addresses ...string) tls.Certificate {
	w.t.Helper()
	p, err := w.ca.Issue(certs.Request{Name: name, Addresses: addresses})
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := p.TLS()
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// config listens on a free port with a certificate that names it.
func (w *world) config(name string) Config {
	w.t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	return Config{
		Listener:    lis,
		Certificate: w.issue(name, lis.Addr().String()),
		Roots:       w.ca.Pool(),
		Logger:      slog.New(slog.DiscardHandler),
	}
}

func (w *world) node(h transport.Handler, change func(*Config)) *Listener {
	w.t.Helper()
	cfg := w.config("node")
	if change != nil {
		change(&cfg)
	}
	l, err := Listen(cfg, h)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(l.Close)
	return l
}

func (w *world) client(system *actor.ActorSystem) *Endpoint {
	w.t.Helper()
	c, err := Join(system, w.config("app"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func newSystem() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
}

func (w *world) dial(c *Endpoint, node string) transport.ClientStream {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	s, err := c.Dialer().Dial(ctx, node)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// await fails the test unless ch yields within waitMax.
func await[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(waitMax):
		t.Fatalf("no %s within %v", what, waitMax)
		panic("unreachable")
	}
}

// echo is a session that greets, answers each frame with one reply for each of its
// operations, and each heartbeat with itself.
func echo(s transport.ServerStream) {
	for {
		m, err := s.Recv()
		if err != nil {
			return
		}
		if m.GetGoodbye() != nil {
			continue
		}
		if err := s.Send(echoOf(m)); err != nil {
			return
		}
	}
}

func echoOf(m *messages.ClientMessage) *messages.ServerMessage {
	switch m := m.Message.(type) {
	case *messages.ClientMessage_Hello:
		return wrapServer(&messages.ServerHello{Protocol: m.Hello.Protocol, Version: m.Hello.ClientName})
	case *messages.ClientMessage_Frame:
		r := &messages.Replies{ClientEpoch: m.Frame.ClientEpoch, Replies: make([]*messages.Reply, len(m.Frame.Operations))}
		for i := range r.Replies {
			r.Replies[i] = &messages.Reply{Call: m.Frame.FirstCall + uint64(i)}
		}
		return wrapServer(r)
	default:
		return wrapServer(&messages.Heartbeat{Number: m.(*messages.ClientMessage_Heartbeat).Heartbeat.Number})
	}
}

func hello() *messages.ClientMessage {
	return wrapClient(&messages.ClientHello{Protocol: messages.ProtocolVersion, ClientName: "app"})
}

func frame(first uint64, value int) *messages.ClientMessage {
	return wrapClient(&messages.Frame{FirstCall: first, Operations: []*messages.Operation{{
		Operation: &messages.Operation_Write{Write: &messages.Write{Op: &messages.Write_Put{
			Put: &messages.Put{Key: []byte("k"), Value: make([]byte, value)},
		}}},
	}}})
}

// mustGreet opens the session of a stream.
func mustGreet(t testing.TB, s transport.ClientStream) {
	t.Helper()
	if err := s.Send(hello()); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Recv(); err != nil || m.GetHello().GetVersion() != "app" {
		t.Fatalf("hello: %v %v", m, err)
	}
}

func mustAnswer(t testing.TB, s transport.ClientStream, call uint64) {
	t.Helper()
	if err := s.Send(frame(call, 10)); err != nil {
		t.Fatal(err)
	}
	m, err := s.Recv()
	if r := m.GetReplies().GetReplies(); err != nil || len(r) != 1 || r[0].Call != call {
		t.Fatalf("call %d: %v %v", call, m, err)
	}
}

func TestStream(t *testing.T) {
	w := newWorld(t)
	peers, ends := make(chan transport.Peer, 1), make(chan error, 1)
	node := w.node(func(s transport.ServerStream) {
		peers <- s.Peer()
		for {
			m, err := s.Recv()
			if err != nil {
				ends <- err
				return
			}
			if m.GetGoodbye() == nil {
				s.Send(echoOf(m))
			}
		}
	}, nil)
	c := w.client(newSystem())
	s := w.dial(c, node.Address())
	mustGreet(t, s)
	if p := await(t, peers, "peer"); p != (transport.Peer{Kind: transport.KindRemote, Address: c.Address(), Name: "app"}) {
		t.Fatalf("%+v", p)
	}
	const n = 3000
	go func() {
		for i := uint64(1); i <= n; i++ {
			if s.Send(frame(i, 1000)) != nil {
				return
			}
		}
	}()
	for i := uint64(1); i <= n; i++ {
		m, err := s.Recv()
		if r := m.GetReplies().GetReplies(); err != nil || len(r) != 1 || r[0].Call != i {
			t.Fatalf("call %d: %v %v", i, m, err)
		}
	}
	s.Close()
	if _, err := s.Recv(); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
		t.Fatal(err)
	}
	if err := await(t, ends, "end of the session"); err != io.EOF {
		t.Fatal(err)
	}
	if r := node.Stats().Refused; len(r) > 0 {
		t.Fatal(r)
	}
}

func TestLargestMessagesPassInABurst(t *testing.T) {
	w := newWorld(t)
	node := w.node(func(s transport.ServerStream) {
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			if f := m.GetFrame(); f != nil { // the value back, twice
				v := f.Operations[0].GetWrite().GetPut().GetValue()
				s.Send(wrapServer(&messages.WatchBatch{WatchId: f.FirstCall, Events: []*messages.Event{
					{Record: &messages.Record{Value: v}, Prev: &messages.Record{Value: v}},
				}}))
				continue
			}
			s.Send(echoOf(m))
		}
	}, nil)
	s := w.dial(w.client(nil), node.Address())
	mustGreet(t, s)
	sizes := []int{messages.ValueBytesCeiling, 1, messages.ValueBytesCeiling, 256 << 10, 256 << 10, 1 << 20, 3 << 20, 5}
	go func() {
		for i, n := range sizes {
			s.Send(frame(uint64(i), n))
		}
	}()
	for i, n := range sizes {
		m, err := s.Recv()
		if err != nil || m.GetWatchBatch().GetWatchId() != uint64(i) || len(m.GetWatchBatch().Events[0].Prev.Value) != n {
			t.Fatalf("message %d of %d bytes: %v", i, n, err)
		}
	}
	s.Close()
}

// A message that the peer would refuse costs only itself.
func TestTooLargeToSend(t *testing.T) {
	w := newWorld(t)
	refused := make(chan error, 1)
	node := w.node(func(s transport.ServerStream) {
		s.Recv()
		refused <- s.Send(wrapServer(&messages.WatchBatch{Events: []*messages.Event{
			{Record: &messages.Record{Value: make([]byte, transport.ServerMessageBytesMax)}},
		}}))
		s.Send(wrapServer(&messages.ServerHello{Version: "app"}))
		echo(s)
	}, nil)
	s := w.dial(w.client(nil), node.Address())
	mustGreet(t, s)
	if err := await(t, refused, "refusal"); messages.CodeOf(err) != messages.Code_CODE_TOO_LARGE {
		t.Fatal(err)
	}
	if err := s.Send(frame(1, transport.ClientMessageBytesMax)); messages.CodeOf(err) != messages.Code_CODE_TOO_LARGE {
		t.Fatal(err)
	}
	mustAnswer(t, s, 2)
}

func TestNodeClosesASession(t *testing.T) {
	w := newWorld(t)
	reason := messages.NewError(messages.Code_CODE_SLOW_CONSUMER, "too slow").Detail
	node := w.node(func(s transport.ServerStream) {
		s.Recv()
		s.Send(wrapServer(&messages.ServerHello{}))
		s.Close(reason)
	}, nil)
	s := w.dial(w.client(nil), node.Address())
	s.Send(hello())
	if m, err := s.Recv(); m.GetHello() == nil {
		t.Fatal(m, err)
	}
	if m, err := s.Recv(); m.GetGoodbye().GetReason().GetCode() != messages.Code_CODE_SLOW_CONSUMER {
		t.Fatal(m, err)
	}
	if _, err := s.Recv(); messages.CodeOf(err) != messages.Code_CODE_SLOW_CONSUMER {
		t.Fatal(err)
	}
}

func TestNodeStops(t *testing.T) {
	w := newWorld(t)
	node := w.node(echo, nil)
	c := w.client(nil)
	s := w.dial(c, node.Address())
	mustGreet(t, s)
	node.Close()
	if m, err := s.Recv(); m.GetGoodbye().GetReason().GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatal(m, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if _, err := c.Dialer().Dial(ctx, node.Address()); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
		t.Fatal(err)
	}
}

func TestClientGoesAway(t *testing.T) {
	w := newWorld(t)
	ends := make(chan error, 2)
	node := w.node(func(s transport.ServerStream) {
		for {
			m, err := s.Recv()
			if err != nil {
				ends <- err
				return
			}
			if m.GetGoodbye() == nil {
				s.Send(echoOf(m))
			}
		}
	}, nil)
	c := w.client(nil)
	for range 2 {
		mustGreet(t, w.dial(c, node.Address()))
	}
	// Without a word: its links are cut.
	c.endpoint.mu.Lock()
	for _, p := range c.endpoint.peers {
		p.link.cut()
	}
	c.endpoint.mu.Unlock()
	for range 2 {
		if err := await(t, ends, "end"); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
			t.Fatal(err)
		}
	}
	mustGreet(t, w.dial(c, node.Address())) // and comes again
}

func TestDialErrors(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	node, stranger := w.node(echo, nil), other.node(echo, nil)
	c := w.client(nil)
	dial := func(node string) error {
		ctx, cancel := context.WithTimeout(context.Background(), waitMax)
		defer cancel()
		_, err := c.Dialer().Dial(ctx, node)
		return err
	}
	for what, err := range map[string]error{
		"nobody":          dial("127.0.0.1:1"),
		"another CA":      dial(stranger.Address()),
		"no such address": dial("nonsense"),
	} {
		if messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The host is right, the port is another's.
	_, port, _ := net.SplitHostPort(node.Address())
	if err := dial("localhost:" + port); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
		t.Errorf("another name: %v", err)
	}
	if n := c.Stats().Refused["dialled"]; n != 2 {
		t.Errorf("dialled: %d", n)
	}
	if err := dial(c.Address()); messages.CodeOf(err) != messages.Code_CODE_INVALID_ARGUMENT {
		t.Errorf("ourselves: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Dialer().Dial(ctx, node.Address()); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSessionLimit(t *testing.T) {
	w := newWorld(t)
	node := w.node(echo, func(c *Config) { c.SessionsPerPeerMax = 2 })
	c := w.client(nil)
	for range 2 {
		mustGreet(t, w.dial(c, node.Address()))
	}
	s := w.dial(c, node.Address())
	s.Send(hello())
	if m, err := s.Recv(); m.GetGoodbye().GetReason().GetCode() != messages.Code_CODE_OVERLOADED {
		t.Fatal(m, err)
	}
	mustGreet(t, w.dial(w.client(nil), node.Address()))
}

func TestConfig(t *testing.T) {
	w := newWorld(t)
	for what, change := range map[string]func(*Config){
		"no certificate":     func(c *Config) { c.Certificate = tls.Certificate{} },
		"no roots":           func(c *Config) { c.Roots = nil },
		"two listeners":      func(c *Config) { c.Listen = "127.0.0.1:0" },
		"another's address":  func(c *Config) { c.Address = "127.0.0.1:1" },
		"address of no form": func(c *Config) { c.Address = "here" },
	} {
		cfg := w.config("node")
		change(&cfg)
		if l, err := Listen(cfg, echo); err == nil {
			l.Close()
			t.Errorf("%s: accepted", what)
		}
		cfg.Listener.Close()
	}
}
