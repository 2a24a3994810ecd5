package transport

import (
	"sync/atomic"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestLeaving: a message that the client has no room for has not left, although Send has
// returned; all have when the client has read them. What comes is what was sent.
func TestLeaving(t *testing.T) {
	const n, size = 4, 800 << 10 // a stream's window holds one
	message := func(i int) *messages.ServerMessage {
		value := make([]byte, size)
		value[size-1] = byte(i)
		return &messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: &messages.Replies{Replies: []*messages.Reply{{
			Call: uint64(i), Reply: &messages.Reply_Query{Query: &messages.QueryReply{Reply: &messages.QueryReply_Get{
				Get: &messages.GetReply{Record: &messages.Record{Key: []byte("k"), Value: value}},
			}}},
		}}}}}
	}
	var left atomic.Int64
	all := make(chan struct{})
	sent := make(chan error, n)
	s := serve(t, func(s ServerStream) {
		s.Recv()
		for i := range n {
			sent <- s.(LeavingSender).SendLeaving(message(i), func() {
				if left.Add(1) == n {
					close(all)
				}
			})
		}
		s.Recv()
	}, ServerOptions{})
	c := mustDial(t, NewGRPCDialer(DialerOptions{}), s.Addr().String())
	c.Send(beat(1))
	for range 2 {
		if err := await(t, sent, "end of Send"); err != nil {
			t.Fatal(err)
		}
	}
	if n := left.Load(); n > 1 {
		t.Fatalf("%d messages have left for a client that reads nothing", n)
	}
	for i := range n {
		m, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		v := m.GetReplies().GetReplies()[0].GetQuery().GetGet().GetRecord().GetValue()
		if len(v) != size || v[size-1] != byte(i) {
			t.Fatalf("message %d: %d bytes that end with %v", i, len(v), v[len(v)-1:])
		}
	}
	await(t, all, "all that left")
}

// TestSmallMessagesHaveLeft: what is too small to wait anywhere has left at once.
func TestSmallMessagesHaveLeft(t *testing.T) {
	left := make(chan bool, 1)
	s := serve(t, func(s ServerStream) {
		s.Recv()
		gone := false
		if err := s.(LeavingSender).SendLeaving(heartbeat(1), func() { gone = true }); err != nil {
			t.Error(err)
		}
		left <- gone
	}, ServerOptions{})
	c := mustDial(t, NewGRPCDialer(DialerOptions{}), s.Addr().String())
	c.Send(beat(1))
	if !await(t, left, "the answer") {
		t.Fatal("a heartbeat has not left")
	}
}
