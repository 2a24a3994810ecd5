package clustertest

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/remoting"
	"github.com/concord-kv/concord/messages"
)

// services is a node that also serves services' actors, and the authority that both
// sides trust.
type services struct {
	*Node
	ca      *certs.Authority
	actors  string // where the node serves them
	metrics string
}

func newServices(t *testing.T) *services {
	t.Helper()
	ca, err := certs.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	s := &services{ca: ca, actors: FreePort(t), metrics: FreePort(t)}
	dir := t.TempDir()
	pair, err := ca.Issue(certs.Request{Name: "node", Addresses: []string{s.actors}})
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Pair().Save(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	if err := pair.Save(dir, "node"); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	s.Node = NewNode(t, "--admin", s.metrics, "--actors", s.actors,
		"--actors-ca", file("ca.crt"), "--actors-cert", file("node.crt"), "--actors-key", file("node.key"))
	s.Start()
	s.WaitReady(s.Client())
	return s
}

// certificate is what a service at address shows.
func (s *services) certificate(t *testing.T, name, address string) tls.Certificate {
	t.Helper()
	pair, err := s.ca.Issue(certs.Request{Name: name, Addresses: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// booker is an actor of a service. It opens a session at the node, writes a key, reads
// it back, and tells what it heard.
type booker struct {
	node string
	told chan<- string
}

func (b *booker) Receive(ctx actor.Context) {
	frame := func(call uint64, op *messages.Operation) {
		ctx.Request(ctx.Sender(), &messages.Frame{ClientEpoch: 7, FirstCall: call, Operations: []*messages.Operation{op}})
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(remoting.Gateway(b.node), &messages.ClientHello{
			Protocol: messages.ProtocolVersion, ClientName: "booker", ClientEpoch: 7,
		})
	case *messages.ServerHello:
		frame(1, &messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
			IdempotencyKey: "booking-1",
			Op:             &messages.Write_Put{Put: &messages.Put{Key: []byte("/booking"), Value: []byte("seat 4")}},
		}}})
	case *messages.Replies:
		for _, r := range m.Replies {
			switch {
			case r.GetResult() != nil:
				frame(2, &messages.Operation{Operation: &messages.Operation_Query{Query: &messages.Query{
					Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte("/booking")}},
				}}})
			case r.GetQuery() != nil:
				b.told <- string(r.GetQuery().GetGet().GetRecord().GetValue())
			default:
				b.told <- messages.ErrorFrom(r.GetError()).Error()
			}
		}
	case *messages.Goodbye:
		b.told <- "ended: " + m.GetReason().GetMessage()
	}
}

// TestServicesActorTalksToANode: the actor of another process's service opens a session
// at a real node, writes and reads.
func TestServicesActorTalksToANode(t *testing.T) {
	s := newServices(t)
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	defer system.Shutdown()
	address := FreePort(t)
	endpoint, err := remoting.Join(system, remoting.Config{
		Listen: address, Certificate: s.certificate(t, "booker", address), Roots: s.ca.Pool(), Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.Close()
	told := make(chan string, 1)
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &booker{node: s.actors, told: told} }))
	defer func() { _ = system.Root.StopFuture(pid).Wait() }()
	select {
	case got := <-told:
		if got != "seat 4" {
			t.Errorf("the actor heard %q", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("the actor heard nothing")
	}
	// The SDK speaks the same way in.
	c, err := client.New(client.Config{Endpoints: []string{s.actors}, Dialer: endpoint.Dialer(), Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r, err := c.Put(Deadline(t, time.Minute), "/booking", []byte("seat 5"), client.PutOptions{}); err != nil || string(r.Prev.GetValue()) != "seat 4" {
		t.Errorf("put: %v, %v", r, err)
	}
}

// TestHostileServices sends a running node what stops an unprotected protoactor process.
// Each is refused and counted; the node, its state and honest clients are unharmed. The
// complete list of attacks is in cluster/remoting; here it is the real process that
// must survive.
func TestHostileServices(t *testing.T) {
	s := newServices(t)
	c := s.Client()
	ctx := Deadline(t, 2*time.Minute)
	if _, err := c.Put(ctx, "/a", []byte("1"), client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	before := status(t, c)

	address := FreePort(t)
	conn, err := grpc.NewClient(s.actors, grpc.WithTransportCredentials(credentials.NewTLS(
		certs.ClientTLS(s.ca.Pool(), ptr(s.certificate(t, "enemy", address))))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer := remote.NewRemotingClient(conn)
	if _, err := peer.ListProcesses(ctx, &remote.ListProcessesRequest{Type: remote.ListProcessesMatchType_MatchPartOfString}); err == nil {
		t.Error("ListProcesses was answered")
	}
	if _, err := peer.GetProcessDiagnostics(ctx, &remote.GetProcessDiagnosticsRequest{}); err == nil {
		t.Error("GetProcessDiagnostics was answered")
	}
	hello, err := proto.Marshal(&messages.ClientHello{Protocol: 1})
	if err != nil {
		t.Fatal(err)
	}
	connect := &remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
		ConnectionType: &remote.ConnectRequest_ServerConnection{ServerConnection: &remote.ServerConnection{MemberId: "enemy", Address: address}},
	}}}
	batch := func(b *remote.MessageBatch) *remote.RemoteMessage {
		return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: b}}
	}
	gateway, sender := "sessions", &actor.PID{Address: address, Id: "x"}
	envelope := func(kind, target string, typeIndex, targetIndex, senderIndex int32, data []byte) *remote.MessageBatch {
		return &remote.MessageBatch{
			TypeNames: []string{kind}, Targets: []string{target}, Senders: []*actor.PID{sender},
			Envelopes: []*remote.MessageEnvelope{{TypeId: typeIndex, Target: targetIndex, Sender: senderIndex, MessageData: data}},
		}
	}
	for name, m := range map[string]*remote.MessageBatch{
		"type index":      envelope("concord.v1.ClientHello", gateway, 7, 0, 1, hello),
		"negative type":   envelope("concord.v1.ClientHello", gateway, -1, 0, 1, hello),
		"target index":    envelope("concord.v1.ClientHello", gateway, 0, 9, 1, hello),
		"sender index":    envelope("concord.v1.ClientHello", gateway, 0, 0, 99, hello),
		"unknown type":    envelope("no.such.Type", gateway, 0, 0, 1, hello),
		"system message":  envelope("actor.Stop", gateway, 0, 0, 1, nil),
		"poison":          envelope("actor.PoisonPill", gateway, 0, 0, 1, nil),
		"terminated":      envelope("actor.Terminated", gateway, 0, 0, 1, nil),
		"guardian":        envelope("concord.v1.ClientHello", "guardian", 0, 0, 1, hello),
		"activator":       envelope("remote.ActorPidRequest", "activator", 0, 0, 1, nil),
		"durable type":    envelope("concord.v1.Entry", gateway, 0, 0, 1, nil),
		"garbage payload": envelope("concord.v1.ClientHello", gateway, 0, 0, 1, []byte{0xFF, 0xFF, 0xFF}),
		"nothing at all":  {},
	} {
		func() {
			stop, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			stream, err := peer.Receive(stop)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if err := stream.Send(connect); err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if _, err := stream.Recv(); err != nil {
				t.Errorf("%s: connect: %v", name, err)
				return
			}
			_ = stream.Send(batch(m))
			_ = stream.CloseSend()
			for err == nil { // until the node has dealt with it
				_, err = stream.Recv()
			}
			if stop.Err() != nil {
				t.Errorf("%s: the node did not end the stream", name)
			}
		}()
	}
	if after := status(t, c); !s.Running() || after.Digest != before.Digest || after.Revision != before.Revision {
		t.Errorf("before %v\nafter %v", before, after)
	}
	if strings.Contains(s.Output(), "panic") {
		t.Error(s.Output())
	}
	r, err := http.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "concord_remoting_refusals_total{"); n < 5 {
		t.Errorf("%d reasons were counted", n)
	}
}

func ptr[T any](v T) *T { return &v }

// TestCertificatesFromTheCommand: what `concord cert` writes is what `concord serve`
// and the client's flags take.
func TestCertificatesFromTheCommand(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := Command(t, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("concord %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("cert", "authority", "--dir", dir)
	run("cert", "issue", "node", "--dir", dir)
	run("cert", "issue", "client", "--dir", dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	n := NewNode(t, "--tls-cert", file("node.crt"), "--tls-key", file("node.key"), "--tls-client-ca", file("ca.crt"))
	n.Start()
	with := []string{"--endpoint", n.Listen, "--ca", file("ca.crt"), "--cert", file("client.crt"), "--key", file("client.key"), "--timeout", "30s"}
	run(append([]string{"put", "/a", "1"}, with...)...)
	if got := run(append([]string{"get", "/a"}, with...)...); strings.TrimSpace(got) != "1" {
		t.Errorf("get: %q", got)
	}
	if out, err := Command(t, "get", "/a", "--endpoint", n.Listen, "--timeout", "2s").CombinedOutput(); err == nil {
		t.Errorf("without a certificate: %s", out)
	}
	if _, err := os.Stat(file("ca.key")); err != nil {
		t.Error(err)
	}
}
