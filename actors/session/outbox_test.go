package session

import (
	"errors"
	"testing"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// gate is a stream whose client reads when the test lets it.
type gate struct {
	allow  chan struct{}
	sent   chan *messages.ServerMessage
	closed chan *messages.ErrorDetail
	cut    chan struct{}
}

func newGate() *gate {
	return &gate{
		allow: make(chan struct{}, 1_000), sent: make(chan *messages.ServerMessage, 1_000),
		closed: make(chan *messages.ErrorDetail, 10), cut: make(chan struct{}),
	}
}

func (g *gate) Send(m *messages.ServerMessage) error {
	select {
	case <-g.allow:
		g.sent <- m
		return nil
	case <-g.cut:
		return errors.New("cut")
	}
}
func (g *gate) Recv() (*messages.ClientMessage, error) { <-g.cut; return nil, errors.New("cut") }
func (g *gate) Close(reason *messages.ErrorDetail)     { g.closed <- reason }
func (g *gate) Peer() transport.Peer                   { return transport.Peer{} }

func someReplies(calls ...uint64) outgoing {
	r := &messages.Replies{}
	for _, c := range calls {
		r.Replies = append(r.Replies, &messages.Reply{Call: c})
	}
	return outgoing{message: &messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: r}}, bytes: 10}
}

func TestOutboxPacksWhatWaits(t *testing.T) {
	g := newGate()
	done := make(chan struct{})
	wrote := make(chan int64, 10)
	o := newOutbox(g, func(w int64) { wrote <- w }, func() { close(done) })
	batch := outgoing{message: &messages.ServerMessage{Message: &messages.ServerMessage_WatchBatch{}}, bytes: 10, window: windowReturnBytes}
	o.push(someReplies(1))
	o.push(someReplies(2, 3))
	o.push(batch)
	o.push(someReplies(4))
	if n := o.push(someReplies(5)); n != 50 {
		t.Fatalf("%d bytes wait", n)
	}
	o.callWhen(0)
	go o.run()
	for range 3 {
		g.allow <- struct{}{}
	}
	if m := <-g.sent; len(m.GetReplies().GetReplies()) != 3 {
		t.Fatalf("sent %v", m)
	}
	<-g.sent
	if w := <-wrote; w != windowReturnBytes {
		t.Fatalf("the window got %d back", w)
	}
	if m := <-g.sent; len(m.GetReplies().GetReplies()) != 2 || m.GetReplies().GetReplies()[0].Call != 4 {
		t.Fatalf("sent %v", m)
	}
	if w := <-wrote; w != 0 {
		t.Fatalf("low water: %d", w)
	}
	o.push(someReplies(6))
	o.close(stopping().Detail, false)
	o.push(someReplies(7)) // too late
	g.allow <- struct{}{}
	if m := <-g.sent; m.GetReplies().GetReplies()[0].Call != 6 || len(m.GetReplies().GetReplies()) != 1 {
		t.Fatalf("sent %v", m)
	}
	if r := <-g.closed; r.GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatalf("closed with %v", r)
	}
	<-done
}

func TestOutboxIsCut(t *testing.T) {
	g := newGate()
	done := make(chan struct{})
	o := newOutbox(g, func(int64) {}, func() { close(done) })
	go o.run()
	o.push(someReplies(1))
	o.push(someReplies(2))
	o.close(stopping().Detail, true)
	if r := <-g.closed; r.GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Fatalf("closed with %v", r)
	}
	close(g.cut)
	<-done
	if len(g.sent) != 0 {
		t.Fatal("something was sent")
	}
}
