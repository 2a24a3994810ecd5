package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitMax bounds every wait of these tests.
const waitMax = 10 * time.Second

// setup opens streams to a handler over one kind of transport.
type setup struct {
	name string
	dial func(t *testing.T, h Handler) ClientStream
}

func setups() []setup {
	return []setup{
		{KindInProcess, func(t *testing.T, h Handler) ClientStream {
			return mustDial(t, NewInProcess(h), "here")
		}},
		{KindGRPC, func(t *testing.T, h Handler) ClientStream {
			s := serve(t, h, ServerOptions{})
			return mustDial(t, NewGRPCDialer(DialerOptions{}), s.Addr().String())
		}},
	}
}

func serve(t testing.TB, h Handler, o ServerOptions) *GRPCServer {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := ServeGRPC(lis, h, o)
	t.Cleanup(s.Stop)
	return s
}

func mustDial(t testing.TB, d Dialer, endpoint string) ClientStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	c, err := d.Dial(ctx, endpoint)
	if err != nil {
		t.Fatalf("dial %s: %v", endpoint, err)
	}
	t.Cleanup(func() { c.Close(); drain(c) })
	return c
}

func drain(c ClientStream) {
	for {
		if _, err := c.Recv(); err != nil {
			return
		}
	}
}

// echo answers each heartbeat with its number and each frame with one reply for
// each operation.
func echo(s ServerStream) {
	for {
		m, err := s.Recv()
		if err != nil {
			return
		}
		if err := s.Send(echoOf(m)); err != nil {
			return
		}
	}
}

func echoOf(m *messages.ClientMessage) *messages.ServerMessage {
	f := m.GetFrame()
	if f == nil {
		return heartbeat(m.GetHeartbeat().GetNumber())
	}
	replies := make([]*messages.Reply, len(f.Operations))
	for i := range replies {
		replies[i] = &messages.Reply{Call: f.FirstCall + uint64(i)}
	}
	return &messages.ServerMessage{Message: &messages.ServerMessage_Replies{
		Replies: &messages.Replies{ClientEpoch: f.ClientEpoch, Replies: replies},
	}}
}

func beat(n uint64) *messages.ClientMessage {
	return &messages.ClientMessage{Message: &messages.ClientMessage_Heartbeat{
		Heartbeat: &messages.Heartbeat{Number: n},
	}}
}

func heartbeat(n uint64) *messages.ServerMessage {
	return &messages.ServerMessage{Message: &messages.ServerMessage_Heartbeat{
		Heartbeat: &messages.Heartbeat{Number: n},
	}}
}

// await fails the test unless ch yields within waitMax.
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

func TestMessagesArriveInOrder(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			c := s.dial(t, echo)
			const n = 2000
			sent := make(chan error, 1)
			go func() {
				for i := uint64(1); i <= n; i++ {
					if err := c.Send(beat(i)); err != nil {
						sent <- err
						return
					}
				}
				sent <- nil
			}()
			for i := uint64(1); i <= n; i++ {
				m, err := c.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if got := m.GetHeartbeat().GetNumber(); got != i {
					t.Fatalf("message %d arrived as %d", i, got)
				}
			}
			if err := await(t, sent, "end of sending"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestServerCloseDeliversWhatWasSentThenTheReason(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			reason := messages.NewError(messages.Code_CODE_NODE_STOPPING, "going down").WithLimit(7).Detail
			recvErr, sendErr := make(chan error, 1), make(chan error, 1)
			c := s.dial(t, func(s ServerStream) {
				s.Recv()
				for i := uint64(1); i <= 10; i++ {
					s.Send(heartbeat(i))
				}
				s.Close(reason)
				s.Close(messages.NewError(messages.Code_CODE_INTERNAL, "only the first counts").Detail)
				_, err := s.Recv()
				recvErr <- err
				sendErr <- s.Send(heartbeat(11))
			})
			if err := c.Send(beat(1)); err != nil {
				t.Fatal(err)
			}
			for i := uint64(1); i <= 10; i++ {
				m, err := c.Recv()
				if err != nil || m.GetHeartbeat().GetNumber() != i {
					t.Fatalf("message %d: %v %v", i, m, err)
				}
			}
			m, err := c.Recv()
			if err != nil || !proto.Equal(m.GetGoodbye().GetReason(), reason) {
				t.Fatalf("want goodbye with %v, got %v %v", reason, m, err)
			}
			for range 2 {
				_, err = c.Recv()
				if !proto.Equal(messages.DetailOf(err), reason) {
					t.Fatalf("want %v, got %v", reason, err)
				}
			}
			if err := c.Send(beat(2)); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE ||
				messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
				t.Fatalf("send after the end: %v", err)
			}
			if err := await(t, recvErr, "end of Recv"); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
				t.Fatalf("Recv after Close: %v", err)
			}
			if err := await(t, sendErr, "end of Send"); messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE {
				t.Fatalf("Send after Close: %v", err)
			}
		})
	}
}

func TestClientCloseDeliversWhatWasSentThenEOF(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			ended := make(chan error, 1)
			read := make(chan uint64, 1)
			c := s.dial(t, func(s ServerStream) {
				var n uint64
				for {
					m, err := s.Recv()
					if err != nil {
						read <- n
						ended <- err
						return
					}
					n = m.GetHeartbeat().GetNumber()
				}
			})
			for i := uint64(1); i <= 100; i++ {
				if err := c.Send(beat(i)); err != nil {
					t.Fatal(err)
				}
			}
			c.Close()
			c.Close()
			if n := await(t, read, "last message"); n != 100 {
				t.Fatalf("the node read up to %d of 100", n)
			}
			if err := await(t, ended, "end"); !errors.Is(err, io.EOF) {
				t.Fatalf("want EOF, got %v", err)
			}
			if err := c.Send(beat(101)); err == nil {
				t.Fatal("sent after Close")
			}
			if _, err := c.Recv(); messages.CodeOf(err) != messages.Code_CODE_CANCELLED {
				t.Fatalf("Recv after Close: %v", err)
			}
		})
	}
}

func TestHandlerReturnEndsTheStream(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			c := s.dial(t, func(ServerStream) {})
			_, err := c.Recv()
			if messages.CodeOf(err) != messages.Code_CODE_UNAVAILABLE || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_UNKNOWN {
				t.Fatal(err)
			}
		})
	}
}

// A peer that does not read must not hold the other: Close ends a blocked Send.
func TestCloseEndsABlockedSend(t *testing.T) {
	big := &messages.ServerMessage{Message: &messages.ServerMessage_Goodbye{Goodbye: &messages.Goodbye{
		Reason: &messages.ErrorDetail{Message: strings.Repeat("x", 100<<10)},
	}}}
	for _, s := range setups() {
		t.Run("server/"+s.name, func(t *testing.T) {
			ended := make(chan error, 1)
			c := s.dial(t, func(s ServerStream) {
				s.Recv()
				go func() {
					for {
						if err := s.Send(big); err != nil {
							ended <- err
							return
						}
					}
				}()
				s.Recv() // the second message: by now the queues are full
				s.Close(messages.NewError(messages.Code_CODE_SLOW_CONSUMER, "").Detail)
			})
			c.Send(beat(1))
			c.Send(beat(2))
			if err := await(t, ended, "end of Send"); err == nil {
				t.Fatal("no error")
			}
		})
		t.Run("client/"+s.name, func(t *testing.T) {
			c := s.dial(t, func(s ServerStream) {
				s.Recv()
				<-t.Context().Done() // and never reads again
			})
			ended := make(chan error, 1)
			filling := make(chan struct{})
			go func() {
				for i := 0; ; i++ {
					if i == 50 {
						close(filling)
					}
					if err := c.Send(bigFrame(100 << 10)); err != nil {
						ended <- err
						return
					}
				}
			}()
			select {
			case <-filling:
			case <-time.After(100 * time.Millisecond):
			}
			c.Close()
			if err := await(t, ended, "end of Send"); err == nil {
				t.Fatal("no error")
			}
		})
	}
}

func bigFrame(n int) *messages.ClientMessage {
	return &messages.ClientMessage{Message: &messages.ClientMessage_Frame{Frame: &messages.Frame{
		FirstCall: 1,
		Operations: []*messages.Operation{{Operation: &messages.Operation_Write{Write: &messages.Write{
			Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("k"), Value: make([]byte, n)}},
		}}}},
	}}}
}
