package remoting_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/cluster/remoting"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// greeter is an actor of a service. It opens a session at a node, writes one key,
// and tells what came back.
type greeter struct {
	node string
	done chan<- string
}

func (g *greeter) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(remoting.Gateway(g.node), &messages.ClientHello{
			Protocol: messages.ProtocolVersion, ClientName: "greeter", ClientEpoch: 7,
		})
	case *messages.ServerHello: // the sender is our session
		fmt.Println("open:", m.Version)
		ctx.Request(ctx.Sender(), &messages.Frame{ClientEpoch: 7, FirstCall: 1, Operations: []*messages.Operation{{
			Operation: &messages.Operation_Write{Write: &messages.Write{Op: &messages.Write_Put{
				Put: &messages.Put{Key: []byte("greeting"), Value: []byte("hello")},
			}}},
		}}})
	case *messages.Replies:
		for _, r := range m.Replies {
			fmt.Printf("call %d: revision %d\n", r.Call, r.GetResult().GetRevision())
		}
		ctx.Request(ctx.Sender(), &messages.Goodbye{})
		g.done <- "done"
	case *messages.Goodbye: // the session is over, or never began
		g.done <- "ended: " + m.Reason.GetMessage()
	}
}

// A service's actor talks to a session of a node in messages of its own.
func Example() {
	ca, _ := certs.NewAuthority("development")

	// The node: here a session that takes every write as revision 42.
	node, err := remoting.Listen(configFor(ca, "node-1"), func(s transport.ServerStream) {
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			switch m := m.Message.(type) {
			case *messages.ClientMessage_Hello:
				s.Send(&messages.ServerMessage{Message: &messages.ServerMessage_Hello{
					Hello: &messages.ServerHello{Protocol: 1, Version: "example"},
				}})
			case *messages.ClientMessage_Frame:
				s.Send(&messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: &messages.Replies{
					ClientEpoch: m.Frame.ClientEpoch,
					Replies: []*messages.Reply{{Call: m.Frame.FirstCall, Reply: &messages.Reply_Result{
						Result: &messages.Result{Revision: 42},
					}}},
				}}})
			}
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	// The service: an actor system that can be reached, and its actor.
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	endpoint, err := remoting.Join(system, configFor(ca, "greeter"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer endpoint.Close()

	done := make(chan string, 1)
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
		return &greeter{node: node.Address(), done: done}
	}))
	fmt.Println(<-done)
	_ = system.Root.StopFuture(pid).Wait()

	// Output:
	// open: example
	// call 1: revision 42
	// done
}

// configFor listens on a free port of this machine, with a certificate that names
// it.
func configFor(ca *certs.Authority, name string) remoting.Config {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	pair, err := ca.Issue(certs.Request{Name: name, Addresses: []string{lis.Addr().String()}})
	if err != nil {
		panic(err)
	}
	var cert tls.Certificate
	if cert, err = pair.TLS(); err != nil {
		panic(err)
	}
	return remoting.Config{Listener: lis, Certificate: cert, Roots: ca.Pool()}
}
