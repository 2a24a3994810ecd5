package remoting

import (
	"crypto/x509"
	"io"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// sink is a route that must only see what the session protocol allows.
type sink struct{ t *testing.T }

func (s sink) receive(m proto.Message, bytes int, _ string, _ <-chan struct{}) {
	if wrapClient(m) == nil {
		s.t.Fatalf("a session received %T", m)
	}
	if _, ok := m.(*messages.ClientHello); ok {
		s.t.Fatal("a session received a hello")
	}
	if bytes < 0 {
		s.t.Fatal("negative size")
	}
}

func (sink) lost(*messages.ErrorDetail) {}

// FuzzStream reads the input as length-prefixed remote messages of one peer and
// passes them through the firewall to a gateway and a session. Nothing may panic,
// nothing but the session protocol may come through, and nothing before connect.
func FuzzStream(f *testing.F) {
	const me, mine, theirs = "10.0.0.2:7000", sessionPrefix + "1", sessionPrefix + "2"
	record := func(ms ...*remote.RemoteMessage) []byte {
		var out []byte
		for _, m := range ms {
			b, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			out = append(out, byte(len(b)>>8), byte(len(b)))
			out = append(out, b...)
		}
		return out
	}
	batch := func(name, target string, data []byte) *remote.RemoteMessage {
		return wire(&remote.MessageBatch{
			TypeNames: []string{name}, Targets: []string{target}, Senders: []*actor.PID{actor.NewPID(me, "a")},
			Envelopes: []*remote.MessageEnvelope{{MessageData: data, Sender: 1}},
		})
	}
	hello, _ := proto.Marshal(someHello())
	body, _ := proto.Marshal(frame(1, 3).GetFrame())
	f.Add(record(connectAs(me), batch(nameOf[*messages.ClientHello](), gatewayID, hello)))
	f.Add(record(connectAs(me), batch(nameOf[*messages.Frame](), mine, body), batch(nameOf[*messages.Goodbye](), mine, nil)))
	f.Add(record(connectAs(me), batch(nameOf[*messages.Frame](), theirs, body)))
	f.Add(record(connectAs(me), batch("actor.Stop", mine, nil)))
	f.Add(record(connectAs(me), batch(deadLetterName, "x", nil), connectAs(me)))
	f.Add(record(batch("actor.Watch", mine, nil)))
	f.Add([]byte{0, 1, 0xff})

	f.Fuzz(func(t *testing.T, in []byte) {
		e := &endpoint{
			cfg:    Config{Logger: slog.New(slog.DiscardHandler), SessionsMax: 10, SessionsPerPeerMax: 10},
			peers:  map[string]*peerState{me: {address: me, routes: 1}},
			routes: map[string]*routeEntry{mine: {route: sink{t}, peer: me}, theirs: {route: sink{t}, peer: "10.0.0.3:7000"}},
			closed: true, // nothing is dialled
		}
		e.gateway = func(_ *guard, a *admitted, m proto.Message, _ int, _ *peerState) {
			if a.sender == "" {
				t.Fatal("the gateway received a message of nobody")
			}
			switch m.(type) {
			case *messages.ClientHello, *messages.Heartbeat:
			default:
				t.Fatalf("the gateway received %T", m)
			}
		}
		e.firewall = &firewall{cfg: e.cfg, counters: &e.counters, checker: checker{kinds: toNode, own: "10.0.0.1:7000", allowed: e.allowed}}
		g := &guard{firewall: e.firewall, timer: time.NewTimer(time.Hour), cert: &x509.Certificate{URIs: []*url.URL{{Scheme: "concord", Host: me}}}}
		err := g.feed(in, func() error {
			if g.peer != me {
				t.Fatalf("a batch of %q came through", g.peer)
			}
			for i := range g.batch {
				if g.batch[i].target == theirs && g.batch[i].kind != kindDeadLetter {
					t.Fatal("another's session was reached")
				}
				if err := e.deliver(g, &g.batch[i], e.peers[me], nil); err != nil {
					return err
				}
			}
			return nil
		})
		if _, ok := err.(refusal); !ok && err != io.EOF {
			t.Fatalf("%T: %v", err, err)
		}
	})
}

// feed admits one recorded message after another.
func (g *guard) feed(in []byte, batch func() error) error {
	connected := false
	for len(in) >= 2 {
		n := int(in[0])<<8 | int(in[1])
		in = in[2:]
		n = min(n, len(in))
		var m remote.RemoteMessage
		if proto.Unmarshal(in[:n], &m) != nil {
			return refusal{RefusedPayload}
		}
		in = in[n:]
		if err := g.admit(&m); err != nil {
			return err
		}
		if connected {
			if err := batch(); err != nil {
				return err
			}
		}
		connected = true
	}
	return io.EOF
}
