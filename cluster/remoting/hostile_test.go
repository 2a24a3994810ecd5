package remoting

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// attacker holds a valid certificate for its own address and says what it likes.
type attacker struct {
	t       *testing.T
	address string
	cc      *grpc.ClientConn
	stream  grpc.ClientStream
}

func (w *world) attacker(t *testing.T, node, address string, opts ...grpc.CallOption) *attacker {
	t.Helper()
	cert := w.issue("attacker", address)
	cc, err := grpc.NewClient("passthrough:///"+node,
		grpc.WithTransportCredentials(credentials.NewTLS(certs.ClientTLS(w.ca.Pool(), &cert))),
		grpc.WithDefaultCallOptions(opts...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return &attacker{t: t, address: address, cc: cc}
}

func (a *attacker) open() grpc.ClientStream {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	a.t.Cleanup(cancel)
	s, err := a.cc.NewStream(ctx, &remote.Remoting_ServiceDesc.Streams[0], remote.Remoting_Receive_FullMethodName)
	if err != nil {
		a.t.Fatal(err)
	}
	a.stream = s
	return s
}

func connectAs(address string) *remote.RemoteMessage {
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
		ConnectionType: &remote.ConnectRequest_ServerConnection{ServerConnection: &remote.ServerConnection{
			MemberId: "m", Address: address,
		}},
	}}}
}

// connected opens a stream and passes the connect.
func (a *attacker) connected() grpc.ClientStream {
	a.t.Helper()
	s := a.open()
	if err := s.SendMsg(connectAs(a.address)); err != nil {
		a.t.Fatal(err)
	}
	var m remote.RemoteMessage
	if err := s.RecvMsg(&m); err != nil || m.GetConnectResponse() == nil {
		a.t.Fatal(&m, err)
	}
	return s
}

func wire(b *remote.MessageBatch) *remote.RemoteMessage {
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: b}}
}

// one is a batch with one message that is in order; tests then spoil it.
func (a *attacker) one(target string, m proto.Message) *remote.MessageBatch {
	data, err := proto.Marshal(m)
	if err != nil {
		a.t.Fatal(err)
	}
	return &remote.MessageBatch{
		TypeNames: []string{nameOfMessage(m)},
		Targets:   []string{target},
		Senders:   []*actor.PID{actor.NewPID(a.address, "me")},
		Envelopes: []*remote.MessageEnvelope{{MessageData: data, Sender: 1}},
	}
}

func ending(s grpc.ClientStream) error {
	var m remote.RemoteMessage
	for {
		if err := s.RecvMsg(&m); err != nil {
			return err
		}
	}
}

func someHello() *messages.ClientHello { return &messages.ClientHello{Protocol: 1, ClientName: "x"} }

// TestAttacks lets a peer with a valid certificate send everything that stops,
// wipes or bends an unprotected node. Each is refused and counted, and neither the
// node nor a client that is there notices.
func TestAttacks(t *testing.T) {
	w := newWorld(t)
	node := w.node(echo, func(c *Config) { c.HandshakeTimeout = time.Second })
	client := w.client(newSystem())
	good := w.dial(client, node.Address())
	mustGreet(t, good)
	victim := good.(*clientStream).session
	calls := uint64(0)

	// evil is not dialled back: nobody listens there.
	const evil = "127.0.0.1:1"

	for _, c := range []struct {
		name   string
		reason Reason
		attack func(a *attacker) error // what the attacker hears
	}{
		{"unary ListProcesses", RefusedUnary, func(a *attacker) error {
			_, err := remote.NewRemotingClient(a.cc).ListProcesses(context.Background(), &remote.ListProcessesRequest{Pattern: "."})
			return err
		}},
		{"unary GetProcessDiagnostics", RefusedUnary, func(a *attacker) error {
			_, err := remote.NewRemotingClient(a.cc).GetProcessDiagnostics(context.Background(),
				&remote.GetProcessDiagnosticsRequest{Pid: actor.NewPID(node.Address(), gatewayID)})
			return err
		}},
		{"batch before connect", RefusedFirstMessage, func(a *attacker) error {
			s := a.open()
			s.SendMsg(wire(a.one(gatewayID, someHello())))
			return ending(s)
		}},
		{"empty first message", RefusedFirstMessage, func(a *attacker) error {
			s := a.open()
			s.SendMsg(&remote.RemoteMessage{})
			return ending(s)
		}},
		{"connect of a client connection", RefusedFirstMessage, func(a *attacker) error {
			s := a.open()
			s.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
				ConnectionType: &remote.ConnectRequest_ClientConnection{ClientConnection: &remote.ClientConnection{MemberId: "m"}},
			}}})
			return ending(s)
		}},
		{"connect without anything", RefusedFirstMessage, func(a *attacker) error {
			s := a.open()
			s.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{}})
			return ending(s)
		}},
		{"connect without an address", RefusedFirstMessage, func(a *attacker) error {
			s := a.open()
			s.SendMsg(connectAs(""))
			return ending(s)
		}},
		{"an endless address", RefusedFirstMessage, func(a *attacker) error {
			s := a.open()
			s.SendMsg(connectAs(strings.Repeat("x", 1<<20)))
			return ending(s)
		}},
		{"another's address", RefusedCertificate, func(a *attacker) error {
			s := a.open()
			s.SendMsg(connectAs(client.Address()))
			return ending(s)
		}},
		{"the node's own address", RefusedSelf, func(a *attacker) error {
			s := a.open()
			s.SendMsg(connectAs(node.Address()))
			return ending(s)
		}},
		{"silence", RefusedHandshake, func(a *attacker) error { return ending(a.open()) }},
		{"a second connect", RefusedSecondConnect, func(a *attacker) error {
			s := a.connected()
			s.SendMsg(connectAs(a.address))
			return ending(s)
		}},
		{"an empty message", RefusedMessageKind, func(a *attacker) error {
			s := a.connected()
			s.SendMsg(&remote.RemoteMessage{})
			return ending(s)
		}},
		{"a connect response", RefusedMessageKind, func(a *attacker) error {
			s := a.connected()
			s.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectResponse{}})
			return ending(s)
		}},
		{"a disconnect request", RefusedMessageKind, func(a *attacker) error {
			s := a.connected()
			s.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_DisconnectRequest{}})
			return ending(s)
		}},
		{"too many streams", RefusedStreams, func(a *attacker) error {
			for range streamsPerPeerMax {
				w.attacker(a.t, node.Address(), a.address).connected()
			}
			s := a.open()
			s.SendMsg(connectAs(a.address))
			return ending(s)
		}},
		spoil("type index beyond", RefusedTypeIndex, func(b *remote.MessageBatch) { b.Envelopes[0].TypeId = 1 }),
		spoil("type index negative", RefusedTypeIndex, func(b *remote.MessageBatch) { b.Envelopes[0].TypeId = -1 }),
		spoil("type index least", RefusedTypeIndex, func(b *remote.MessageBatch) { b.Envelopes[0].TypeId = -1 << 31 }),
		spoil("no types", RefusedTypeIndex, func(b *remote.MessageBatch) { b.TypeNames = nil }),
		spoil("target index beyond", RefusedTargetIndex, func(b *remote.MessageBatch) { b.Envelopes[0].Target = 1 }),
		spoil("target index negative", RefusedTargetIndex, func(b *remote.MessageBatch) { b.Envelopes[0].Target = -7 }),
		spoil("no targets", RefusedTargetIndex, func(b *remote.MessageBatch) { b.Targets = nil }),
		spoil("sender index beyond", RefusedSenderIndex, func(b *remote.MessageBatch) { b.Envelopes[0].Sender = 2 }),
		spoil("sender index negative", RefusedSenderIndex, func(b *remote.MessageBatch) { b.Envelopes[0].Sender = -1 }),
		spoil("sender index least", RefusedSenderIndex, func(b *remote.MessageBatch) { b.Envelopes[0].Sender = -1 << 31 }),
		spoil("no senders", RefusedSenderIndex, func(b *remote.MessageBatch) { b.Senders = nil }),
		spoil("hello without a sender", RefusedSender, func(b *remote.MessageBatch) { b.Envelopes[0].Sender = 0 }),
		spoil("forged sender", RefusedSender, func(b *remote.MessageBatch) { b.Senders[0].Address = client.Address() }),
		spoil("sender at the node", RefusedSender, func(b *remote.MessageBatch) { b.Senders[0].Address = node.Address() }),
		spoil("sender of no address", RefusedSender, func(b *remote.MessageBatch) { b.Senders[0].Address = "" }),
		spoil("sender of no id", RefusedSender, func(b *remote.MessageBatch) { b.Senders[0].Id = "" }),
		spoil("a forged sender that is not used", RefusedSender, func(b *remote.MessageBatch) {
			b.Senders = append(b.Senders, actor.NewPID("10.0.0.1:22", "x"))
		}),
		spoil("serializer JSON", RefusedSerializer, func(b *remote.MessageBatch) { b.Envelopes[0].SerializerId = 1 }),
		spoil("serializer unknown", RefusedSerializer, func(b *remote.MessageBatch) { b.Envelopes[0].SerializerId = 99 }),
		spoil("serializer negative", RefusedSerializer, func(b *remote.MessageBatch) { b.Envelopes[0].SerializerId = -1 }),
		spoil("unknown type name", RefusedTypeName, func(b *remote.MessageBatch) { b.TypeNames[0] = "no.such.Type" }),
		spoil("empty type name", RefusedTypeName, func(b *remote.MessageBatch) { b.TypeNames[0] = "" }),
		spoil("a node's message", RefusedTypeName, func(b *remote.MessageBatch) { b.TypeNames[0] = nameOf[*messages.Replies]() }),
		spoil("a mailbox message of the node", RefusedTypeName, func(b *remote.MessageBatch) { b.TypeNames[0] = nameOf[*messages.Propose]() }),
		spoil("a log entry", RefusedTypeName, func(b *remote.MessageBatch) { b.TypeNames[0] = nameOf[*messages.Entry]() }),
		spoil("payload that is garbage", RefusedPayload, func(b *remote.MessageBatch) { b.Envelopes[0].MessageData = []byte("\xff\xff\xff") }),
		spoil("payload that lies about its length", RefusedPayload, func(b *remote.MessageBatch) {
			b.Envelopes[0].MessageData = []byte{0x12, 0xff, 0xff, 0xff, 0xff, 0x07, 'x'}
		}),
		spoil("too many envelopes", RefusedBatchSize, func(b *remote.MessageBatch) {
			for range envelopesMax {
				b.Envelopes = append(b.Envelopes, b.Envelopes[0])
			}
		}),
		spoil("too many types", RefusedBatchSize, func(b *remote.MessageBatch) {
			for range typeNamesMax {
				b.TypeNames = append(b.TypeNames, b.TypeNames[0])
			}
		}),
		spoil("too many targets", RefusedBatchSize, func(b *remote.MessageBatch) {
			for range envelopesMax {
				b.Targets = append(b.Targets, "x")
			}
		}),
		spoil("too many senders", RefusedBatchSize, func(b *remote.MessageBatch) {
			for range envelopesMax {
				b.Senders = append(b.Senders, b.Senders[0])
			}
		}),
		spoil("an endless target", RefusedBatchSize, func(b *remote.MessageBatch) { b.Targets[0] = strings.Repeat("x", 1000) }),
		spoil("an endless sender", RefusedBatchSize, func(b *remote.MessageBatch) { b.Senders[0].Id = strings.Repeat("x", 1000) }),
		send("hello to a guardian", RefusedTarget, "guardian1", someHello()),
		send("hello to the activator", RefusedTarget, "activator", someHello()),
		send("hello to the endpoint supervisor", RefusedTarget, "EndpointSupervisor", someHello()),
		send("hello to the event stream", RefusedTarget, "eventstream", someHello()),
		send("hello to dead letters", RefusedTarget, "deadletter", someHello()),
		send("hello to any actor", RefusedTarget, "$1", someHello()),
		send("hello to no id", RefusedTarget, "", someHello()),
		send("hello to another's session", RefusedTarget, victim, someHello()),
		send("frame to another's session", RefusedTarget, victim, &messages.Frame{FirstCall: 1}),
		send("goodbye to another's session", RefusedTarget, victim, &messages.Goodbye{}),
		send("frame to the gateway", RefusedTarget, gatewayID, &messages.Frame{FirstCall: 1}),
		send("goodbye to the gateway", RefusedTarget, gatewayID, &messages.Goodbye{}),
		send("stop", RefusedTypeName, victim, &actor.Stop{}),
		send("stop to the gateway", RefusedTypeName, gatewayID, &actor.Stop{}),
		send("poison", RefusedTypeName, victim, &actor.PoisonPill{}),
		send("watch by nobody", RefusedTypeName, victim, &actor.Watch{}),
		send("watch", RefusedTypeName, victim, &actor.Watch{Watcher: actor.NewPID("10.0.0.1:22", "x")}),
		send("unwatch", RefusedTypeName, victim, &actor.Unwatch{}),
		send("terminated of nobody", RefusedTypeName, victim, &actor.Terminated{}),
		send("terminated", RefusedTypeName, victim, &actor.Terminated{Who: actor.NewPID(evil, "x")}),
		send("touch", RefusedTypeName, victim, &actor.Touch{}),
		send("spawn of a kind", RefusedTypeName, "activator", &remote.ActorPidRequest{Kind: "any", Name: "x"}),
		send("a PID", RefusedTypeName, victim, &actor.PID{}),
		{"larger than the limit", RefusedOversize, func(a *attacker) error {
			s := a.connected()
			b := a.one(gatewayID, someHello())
			b.Envelopes[0].MessageData = make([]byte, nodeReceiveBytes)
			s.SendMsg(wire(b))
			return ending(s)
		}},
		{"bytes that are no message", RefusedPayload, func(a *attacker) error {
			a = w.attacker(a.t, node.Address(), a.address, grpc.ForceCodecV2(noise{}))
			s := a.open()
			s.SendMsg([]byte("\xff\xff\xff\xff"))
			return s.RecvMsg(nil)
		}},
		{"another service", reasons, func(a *attacker) error {
			s, err := a.cc.NewStream(context.Background(), &remote.Remoting_ServiceDesc.Streams[0], "/remote.Remoting/Else")
			if err != nil {
				return err
			}
			return ending(s)
		}},
		{"a burst of over 4 MB", reasons, func(a *attacker) error {
			s := a.connected() // allowed: every message of it is answered
			for range 20 {
				b := a.one(sessionPrefix+"gone", &messages.Frame{ClientEpoch: 1, Operations: frame(1, 250<<10).GetFrame().Operations})
				for range 10 {
					b.Envelopes = append(b.Envelopes, b.Envelopes[0])
				}
				if err := s.SendMsg(wire(b)); err != nil {
					return err
				}
			}
			s.CloseSend()
			return ending(s)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := node.Stats().Refused
			a := w.attacker(t, node.Address(), evil)
			err := c.attack(a)
			if err == nil {
				t.Fatal("not refused")
			}
			if c.reason < reasons {
				// gRPC tells the attacker of some errors before it tells the node.
				deadline := time.Now().Add(waitMax)
				for node.Stats().Refused[c.reason.String()] != before[c.reason.String()]+1 {
					if time.Now().After(deadline) {
						t.Fatalf("%v: before %v, then %v", err, before, node.Stats().Refused)
					}
					runtime.Gosched()
				}
				if code := status.Code(err); code == codes.OK || code == codes.Unknown {
					t.Fatal(err)
				}
			}
			a.cc.Close()
			calls++
			mustAnswer(t, good, calls) // the other client noticed nothing
		})
	}
	mustGreet(t, w.dial(client, node.Address())) // and new ones get in
}

type attack = struct {
	name   string
	reason Reason
	attack func(a *attacker) error
}

// spoil is an attack by a hello that something is wrong with.
func spoil(name string, reason Reason, change func(*remote.MessageBatch)) attack {
	return attack{name, reason, func(a *attacker) error {
		s := a.connected()
		b := a.one(gatewayID, someHello())
		change(b)
		s.SendMsg(wire(b))
		return ending(s)
	}}
}

// send is an attack by a message to a target.
func send(name string, reason Reason, target string, m proto.Message) attack {
	return attack{name, reason, func(a *attacker) error {
		s := a.connected()
		s.SendMsg(wire(a.one(target, m)))
		return ending(s)
	}}
}

// noise sends bytes as they are.
type noise struct{}

func (noise) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (noise) Unmarshal(mem.BufferSlice, any) error { return nil }
func (noise) Name() string                         { return "proto" }

func TestTLSIsRequired(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	node := w.node(echo, func(c *Config) { c.HandshakeTimeout = 300 * time.Millisecond })
	app, alien := w.issue("app", "127.0.0.1:1"), other.issue("app", "127.0.0.1:1")
	for what, cfg := range map[string]*tls.Config{
		"without a certificate":          certs.ClientTLS(w.ca.Pool(), nil),
		"a certificate of another CA":    certs.ClientTLS(w.ca.Pool(), &alien),
		"a node that we would not trust": certs.ClientTLS(other.ca.Pool(), &app),
	} {
		cc, err := grpc.NewClient("passthrough:///"+node.Address(), grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = remote.NewRemotingClient(cc).ListProcesses(context.Background(), &remote.ListProcessesRequest{})
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
		cc.Close()
	}
	for what, text := range map[string][]byte{
		"plain HTTP/2": []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		"noise":        bytes.Repeat([]byte{0xa5, 0x16, 0x03}, 9999),
		"silence":      nil,
	} {
		c, err := net.Dial("tcp", node.Address())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(waitMax))
		c.Write(text)
		for err == nil {
			_, err = c.Read(make([]byte, 1024))
		}
		if n, ok := err.(net.Error); ok && n.Timeout() {
			t.Errorf("%s: still open", what)
		}
		c.Close()
	}
	if n := node.Stats().Refused["tls"]; n < 4 {
		t.Errorf("counted %d", n)
	}
	mustGreet(t, w.dial(w.client(nil), node.Address()))
}

func TestConnectionLimit(t *testing.T) {
	w := newWorld(t)
	node := w.node(echo, func(c *Config) { c.ConnectionsMax = 1 })
	s := w.dial(w.client(nil), node.Address())
	mustGreet(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if _, err := w.client(nil).Dialer().Dial(ctx, node.Address()); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
		t.Fatal(err)
	}
	if n := node.Stats().Refused["connections"]; n != 1 {
		t.Fatal(node.Stats())
	}
	mustAnswer(t, s, 1)
}

// A peer that speaks to sessions of the node's last life is told, once for each
// message, and never for a goodbye.
func TestStaleSession(t *testing.T) {
	w := newWorld(t)
	node := w.node(echo, nil)
	c := w.client(nil)
	s := w.dial(c, node.Address()).(*clientStream)
	mustGreet(t, s)
	s.session = sessionPrefix + "0-1"
	s.Send(frame(1, 1))
	if m, err := s.Recv(); m.GetGoodbye().GetReason().GetCode() != messages.Code_CODE_UNAVAILABLE {
		t.Fatal(m, err)
	}
	if n := node.Stats().Refused["stale"]; n != 1 {
		t.Fatal(node.Stats())
	}
}

// The same firewall guards the service: a node, or whoever has a certificate, may
// send it answers and nothing else.
func TestAttacksOnAService(t *testing.T) {
	w := newWorld(t)
	node := w.node(echo, nil)
	system := newSystem()
	client := w.client(system)
	received := make(chan any, 10)
	pid, err := system.Root.SpawnNamed(actor.PropsFromFunc(func(ctx actor.Context) { received <- ctx.Message() }), "bystander")
	if err != nil {
		t.Fatal(err)
	}
	await(t, received, "Started")
	good := w.dial(client, node.Address()).(*clientStream)
	mustGreet(t, good)
	for i, c := range []attack{
		send("stop", RefusedTypeName, pid.Id, &actor.Stop{}),
		send("poison", RefusedTypeName, pid.Id, &actor.PoisonPill{}),
		send("watch", RefusedTypeName, pid.Id, &actor.Watch{}),
		send("terminated of nobody", RefusedTypeName, good.id, &actor.Terminated{}),
		send("a client's message", RefusedTypeName, good.id, &messages.Frame{}),
		send("another node's answer", RefusedTarget, good.id, &messages.Replies{}),
		send("another node's goodbye", RefusedTarget, good.id, &messages.Goodbye{}),
		send("an answer that nobody asked for", DroppedStale, pid.Id, &messages.Replies{}),
		send("dead letter", DroppedDeadLetter, pid.Id, &actor.DeadLetterResponse{}),
		spoil("type index", RefusedTypeIndex, func(b *remote.MessageBatch) { b.Envelopes[0].TypeId = 1 << 30 }),
	} {
		t.Run(c.name, func(t *testing.T) {
			a := w.attacker(t, client.Address(), "127.0.0.1:1")
			if c.reason >= DroppedStale {
				s := a.connected()
				defer s.CloseSend()
				b := a.one(pid.Id, &messages.Replies{})
				if c.reason == DroppedDeadLetter {
					b = a.one(pid.Id, &actor.DeadLetterResponse{})
				}
				s.SendMsg(wire(b))
				// The stream goes on: the next message ends it.
				s.SendMsg(connectAs(a.address))
				ending(s)
			} else if err := c.attack(a); err == nil {
				t.Fatal("not refused")
			}
			if n := client.Stats().Refused[c.reason.String()]; n == 0 {
				t.Fatal(client.Stats())
			}
			mustAnswer(t, good, uint64(i+1))
			select {
			case m := <-received:
				t.Fatalf("the bystander received %T", m)
			default:
			}
		})
	}
	if n := client.Stats().Peers; n > 2 {
		t.Fatalf("%d peers: the service dialled a stranger", n)
	}
}

func TestPanicInAHandler(t *testing.T) {
	w := newWorld(t)
	node := w.node(func(s transport.ServerStream) {
		s.Recv()
		s.Send(wrapServer(&messages.ServerHello{Version: "app"}))
		m, _ := s.Recv()
		if m.GetFrame().GetFirstCall() == 13 {
			panic("thirteen")
		}
		s.Send(echoOf(m))
		s.Recv()
	}, nil)
	c := w.client(nil)
	good, bad := w.dial(c, node.Address()), w.dial(c, node.Address())
	mustGreet(t, good)
	mustGreet(t, bad)
	bad.Send(frame(13, 1))
	if m, err := bad.Recv(); m.GetGoodbye().GetReason().GetCode() != messages.Code_CODE_INTERNAL {
		t.Fatal(m, err)
	}
	mustAnswer(t, good, 1)
}

// A new member at an old address ends what the old one had, though its connection
// still stands.
func TestARestartedPeer(t *testing.T) {
	w := newWorld(t)
	ends := make(chan error, 1)
	node := w.node(func(s transport.ServerStream) {
		for {
			if _, err := s.Recv(); err != nil {
				ends <- err
				return
			}
		}
	}, func(c *Config) { c.HandshakeTimeout = time.Hour })
	mute, err := net.Listen("tcp", "127.0.0.1:0") // dialled back, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	a := w.attacker(t, node.Address(), mute.Addr().String())
	s := a.connected()
	s.SendMsg(wire(a.one(gatewayID, someHello())))
	await(t, sessionsOf(node, 1), "session")
	again := a.open()
	m := connectAs(a.address)
	m.GetConnectRequest().GetServerConnection().MemberId = "reborn"
	again.SendMsg(m)
	if err := await(t, ends, "end"); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
		t.Fatal(err)
	}
}

// sessionsOf yields once the node has n sessions.
func sessionsOf(l *Listener, n int) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		for l.Stats().Sessions != n {
			runtime.Gosched()
		}
		close(c)
	}()
	return c
}

// A client that does not read holds up its own session and nobody else's, and
// Close ends a Send that waits.
func TestAClientThatDoesNotRead(t *testing.T) {
	w := newWorld(t)
	sent, ends := make(chan int, 1), make(chan error, 1)
	node := w.node(func(s transport.ServerStream) {
		m, _ := s.Recv()
		if m.GetHello().GetClientName() == "app" {
			s.Send(echoOf(m))
			echo(s)
			return
		}
		go func() {
			for i := 0; ; i++ {
				err := s.Send(wrapServer(&messages.WatchBatch{Events: []*messages.Event{
					{Record: &messages.Record{Value: make([]byte, 100<<10)}},
				}}))
				if err != nil {
					sent <- i
					ends <- err
					return
				}
			}
		}()
		s.Recv() // the heartbeat that comes when the queues are full
		s.Close(nil)
	}, nil)
	lazy := w.dial(w.client(nil), node.Address())
	good := w.dial(w.client(nil), node.Address())
	mustGreet(t, good)
	lazy.Send(wrapClient(&messages.ClientHello{ClientName: "lazy"}))
	for { // until the node has filled every queue on the way
		node.endpoint.mu.Lock()
		p := node.endpoint.peers[lazy.(*clientStream).endpoint.address]
		full := p != nil && p.link != nil && p.link.queue.full(100<<10)
		node.endpoint.mu.Unlock()
		if full {
			break
		}
		runtime.Gosched()
	}
	mustAnswer(t, good, 1)
	lazy.(*clientStream).link.send(outgoing{
		message: &messages.Heartbeat{}, target: sessionOf(node, good), sender: lazy.(*clientStream).id,
	}, nil)
	if err := await(t, ends, "end of Send"); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
		t.Fatal(err)
	}
	const room = (linkBytesMax + inboxBytesMax + 2<<20 + 2*batchBytesMax) / (100 << 10)
	if n := await(t, sent, "count"); n > room {
		t.Fatalf("%d messages were taken", n)
	}
	mustAnswer(t, good, 2)
	lazy.Close()
}

// sessionOf returns the id of the session that is not good's.
func sessionOf(l *Listener, good transport.ClientStream) string {
	l.endpoint.mu.Lock()
	defer l.endpoint.mu.Unlock()
	for id := range l.endpoint.routes {
		if id != good.(*clientStream).session {
			return id
		}
	}
	return ""
}

// full reports whether an item of this size would have to wait.
func (q *queue[T]) full(bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.items) - q.head
	return n > 0 && (n >= q.messagesMax || q.bytes+bytes > q.bytesMax)
}

func TestAnyPort(t *testing.T) {
	w := newWorld(t)
	hostOnly := func(c *Config) {
		p, err := w.ca.Issue(certs.Request{Name: "x", Hosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		if c.Certificate, err = p.TLS(); err != nil {
			t.Fatal(err)
		}
	}
	node := w.node(echo, func(c *Config) { hostOnly(c); c.AnyPort = true })
	cfg := w.config("app")
	hostOnly(&cfg)
	if c, err := Join(nil, cfg); err == nil {
		c.Close()
		t.Fatal("a certificate without the port was enough")
	}
	cfg = w.config("app")
	hostOnly(&cfg)
	cfg.AnyPort = true
	c, err := Join(nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mustGreet(t, w.dial(c, node.Address()))
	// A strict client does not believe such a node.
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if _, err := w.client(nil).Dialer().Dial(ctx, node.Address()); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
		t.Fatal(err)
	}
}
