// Package interop tests that a service which uses protoactor's own remote package
// can talk to a node. It has a package of its own because that package sets gRPC's
// global logger when it starts, which no other gRPC in the process may overlap.
package interop

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/remoting"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

const waitMax = 20 * time.Second

func await[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(waitMax):
		t.Fatalf("no %s within %v", what, waitMax)
		panic("unreachable")
	}
}

func issue(t *testing.T, ca *certs.Authority, name, address string) tls.Certificate {
	t.Helper()
	p, err := ca.Issue(certs.Request{Name: name, Addresses: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

// session greets, and answers each frame with one reply for each operation.
func session(ended chan<- error) transport.Handler {
	return func(s transport.ServerStream) {
		for {
			m, err := s.Recv()
			if err != nil {
				ended <- err
				return
			}
			out := new(messages.ServerMessage)
			switch m := m.Message.(type) {
			case *messages.ClientMessage_Hello:
				out.Message = &messages.ServerMessage_Hello{Hello: &messages.ServerHello{Version: "node"}}
			case *messages.ClientMessage_Frame:
				out.Message = &messages.ServerMessage_Replies{Replies: &messages.Replies{
					Replies: []*messages.Reply{{Call: m.Frame.FirstCall}},
				}}
			default:
				continue
			}
			if s.Send(out) != nil {
				return
			}
		}
	}
}

func TestProtoactorsOwnRemote(t *testing.T) {
	ca, err := certs.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	free := listen(t) // protoactor listens by itself: its port must be known before
	address := free.Addr().String()
	free.Close()
	host, portText, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(portText)
	cert := issue(t, ca, "service", address)

	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	service := remote.NewRemote(system, remote.Configure(host, port,
		remote.WithServerOptions(grpc.Creds(credentials.NewTLS(certs.ServerTLS(cert, ca.Pool()))), grpc.MaxRecvMsgSize(transport.ServerMessageBytesMax+64<<10)),
		remote.WithDialOptions(grpc.WithTransportCredentials(credentials.NewTLS(certs.ClientTLS(ca.Pool(), &cert)))),
		remote.WithEndpointWriterBatchSize(32), remote.WithEndpointWriterQueueSize(1024)))
	service.Start()
	defer service.Shutdown(false)

	lis := listen(t)
	ended := make(chan error, 1)
	node, err := remoting.Listen(remoting.Config{
		Listener: lis, Certificate: issue(t, ca, "node", lis.Addr().String()), Roots: ca.Pool(),
		Logger: slog.New(slog.DiscardHandler),
	}, session(ended))
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()

	const frames = 500
	answered, goodbye := make(chan uint64, frames), make(chan *messages.Goodbye, 1)
	opened := make(chan *actor.PID, 1)
	pid := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			ctx.Request(remoting.Gateway(node.Address()), &messages.ClientHello{Protocol: 1})
		case *messages.ServerHello:
			opened <- ctx.Sender()
			for i := uint64(1); i <= frames; i++ {
				ctx.Request(ctx.Sender(), &messages.Frame{FirstCall: i, Operations: []*messages.Operation{{
					Operation: &messages.Operation_Write{Write: &messages.Write{Op: &messages.Write_Put{
						Put: &messages.Put{Key: []byte("k"), Value: make([]byte, 8<<10)},
					}}},
				}}})
			}
		case *messages.Replies:
			for _, r := range m.Replies {
				answered <- r.Call
			}
		case *messages.Goodbye:
			goodbye <- m
		}
	}))
	who := await(t, opened, "hello")
	for i := uint64(1); i <= frames; i++ {
		if call := await(t, answered, "answer"); call != i {
			t.Fatalf("call %d answered as %d", i, call)
		}
	}
	if r := node.Stats().Refused; len(r) != 0 {
		t.Fatal(r)
	}
	// What the library adds to the wire by itself is refused, and the session ends
	// with the connection: nobody stops it from afar.
	system.Root.Stop(who)
	if err := await(t, ended, "end of the session"); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE || err == io.EOF {
		t.Fatal(err)
	}
	if n := node.Stats().Refused["type_name"]; n != 1 {
		t.Fatal(node.Stats())
	}
	system.Root.Stop(pid)
}
