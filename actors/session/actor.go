package session

import (
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// connection is one stream and the goroutines around it: the transport's, which
// reads (Gateway.Serve), and the writer's.
type connection struct {
	id     uint64
	stream transport.ServerStream
	outbox *outbox
	// tokens has a place for each message that is in the session's mailbox.
	tokens   chan struct{}
	received atomic.Uint64
	waits    atomic.Bool // the reader waits for a token, or is held
	held     atomic.Pointer[chan struct{}]

	pid      *actor.PID    // set before attached is closed
	attached chan struct{} // closed once the session's actor is there
	done     chan struct{} // closed once it has stopped
	written  chan struct{} // closed once the writer has returned
}

// hold has the reader wait before the next message, until it is let go on.
func (c *connection) hold(on bool) {
	if on {
		let := make(chan struct{})
		c.held.Store(&let)
	} else if let := c.held.Swap(nil); let != nil {
		close(*let)
	}
}

// pass waits while the reader is held. It reports false once the session has stopped.
func (c *connection) pass() bool {
	let := c.held.Load()
	if let == nil {
		return true
	}
	c.waits.Store(true)
	defer c.waits.Store(false)
	select {
	case <-*let:
		return true
	case <-c.done:
		return false
	}
}

// What the goroutines around a session, and its gateway, tell it.
type (
	inbound    struct{ message *messages.ClientMessage }
	streamGone struct{}
	writerDone struct{}
	wrote      struct{ window int64 }
	flushNow   struct{}
	drainNow   struct{}
	abortNow   struct{ reason *messages.Error }
)

var theFlush = &flushNow{}

// session is the shell around the core.
type session struct {
	cfg  *Config
	conn *connection
	core *core
	ctx  actor.Context // of the message being received
}

func newSession(cfg *Config, a *admission, conn *connection) *session {
	s := &session{cfg: cfg, conn: conn}
	peer := conn.stream.Peer()
	s.core = newCore(conn.id, peer.Name, cfg, a, s)
	s.core.peer = peer
	_, s.core.encodes = conn.stream.(transport.BatchSender)
	s.core.who.takeCertificate(peer)
	return s
}

// Receive implements actor.Actor.
func (s *session) Receive(ctx actor.Context) {
	s.ctx = ctx
	switch m := ctx.Message().(type) {
	case *inbound:
		<-s.conn.tokens
		s.core.received(m.message)
		s.core.settle()
	case *messages.Proposed:
		s.core.proposed(m)
	case *messages.BarrierReached:
		s.core.barrierReached(m)
	case *state.GotView:
		s.gotView(m)
	case *messages.AdminAnswered:
		s.core.adminAnswered(m)
	case *passwordChecked:
		s.core.passwordChecked(m)
	case *protocol.Deliver:
		s.core.deliver(m)
	case *flushNow:
		s.core.flush()
	case *wrote:
		s.core.wrote(m.window)
	case *messages.ClockTick:
		s.core.tick(m.GetMonotonicMs(), s.conn.received.Load(), s.conn.waits.Load())
	case *messages.LeaderChanged:
		s.core.leaderChanged(m)
	case *drainNow:
		s.core.drain()
	case *abortNow:
		s.core.cut(m.reason)
	case *streamGone:
		s.core.gone()
	case *writerDone:
		ctx.Stop(ctx.Self())
	case *actor.DeadLetterResponse:
		// An actor that it asked is gone: the node stops. The calls run into their
		// deadline, or the stream is closed first.
	case *actor.Started:
	case *actor.Stopping:
		s.stopping()
	case *actor.Stopped:
	default:
		// A defect: this connection is the price, not the node.
		panic(fmt.Sprintf("session: unexpected message %T", m))
	}
}

func (s *session) gotView(m *state.GotView) {
	if m.View == nil {
		s.core.gotNoView(m.RequestID)
		return
	}
	s.core.gotView(m.RequestID, m.View)
}

// stopping runs in every case, also after a panic, when the reason is ours.
func (s *session) stopping() {
	s.conn.outbox.close(messages.UnknownOutcome(messages.Code_CODE_INTERNAL, "the session failed").Detail, true)
	s.core.stopped()
}

func (s *session) propose(m *messages.Propose)      { s.ctx.Request(s.cfg.Replica, m) }
func (s *session) barrier(m *messages.ReadBarrier)  { s.ctx.Request(s.cfg.Replica, m) }
func (s *session) getView(m *state.GetView)         { s.ctx.Request(s.cfg.Apply, m) }
func (s *session) askOperator(m *messages.AskAdmin) { s.ctx.Request(s.cfg.Operator, m) }
func (s *session) tellHub(m any)                    { s.ctx.Request(s.cfg.Watch, m) }
func (s *session) push(m outgoing) int64            { return s.conn.outbox.push(m) }
func (s *session) waiting() (int64, uint64)         { return s.conn.outbox.waiting() }
func (s *session) callWhen(low int64)               { s.conn.outbox.callWhen(low) }
func (s *session) hold(on bool)                     { s.conn.hold(on) }
func (s *session) belongs(of *client)               { s.conn.outbox.belongs(of) }
func (s *session) wake()                            { s.ctx.Send(s.ctx.Self(), theFlush) }
func (s *session) checkPassword(u *messages.User, password string) {
	root, self := s.ctx.ActorSystem().Root, s.ctx.Self()
	s.cfg.passwords.check(u, password, func(m *passwordChecked) { root.Send(self, m) })
}
func (s *session) closeStream(reason *messages.ErrorDetail, now bool) {
	s.conn.outbox.close(reason, now)
}
