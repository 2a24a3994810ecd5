package peers

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
	helloTimeout     = 5 * time.Second
	windowBytes      = 4 << 20
	connectionsMax   = 256
)

func newServer(cfg Config) *grpc.Server {
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(messageBytesMax),
		grpc.MaxConcurrentStreams(4),
		grpc.ConnectionTimeout(helloTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.StaticStreamWindowSize(windowBytes),
		grpc.StaticConnWindowSize(windowBytes),
		grpc.ForceServerCodecV2(transport.Codec()),
		experimental.BufferPool(transport.Buffers()),
	}
	if cfg.ServerTLS != nil {
		opts = append(opts, grpc.Creds(transport.PeerHandshakes.Credentials(cfg.ServerTLS, cfg.Logger)))
	}
	return grpc.NewServer(opts...)
}

// accept serves a gRPC stream.
func (m *Mesh) accept(ss grpc.ServerStream) error {
	if err := ss.SendHeader(nil); err != nil {
		return err
	}
	return m.acceptStream(ss.Context(), ss)
}

// acceptStream serves a link that another node has dialled.
func (m *Mesh) acceptStream(ctx context.Context, ss Stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h, err := receiveHello(ctx, ss)
	if err != nil {
		return err
	}
	if e := m.refuse(h); e != nil {
		m.refusals.add(m.cfg.Logger, h.GetFrom().GetReplicaId(), e)
		return ss.SendMsg(goodbye(e))
	}
	if err := ss.SendMsg(m.hello(h.GetFrom().GetReplicaId())); err != nil {
		return err
	}
	m.learn(append(h.GetKnown(), h.GetFrom()))
	// gRPC ends a stream, and with it a blocked receive, when this method returns.
	c := newConn(ss, cancel, m)
	m.mu.Lock()
	m.accepted[c] = h.GetFrom().GetReplicaId()
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.accepted, c)
		m.mu.Unlock()
	}()
	go func() {
		served := &served{mesh: m, conn: c}
		_ = c.serve(func(message *messages.PeerMessage) {
			switch x := message.GetMessage().(type) {
			case *messages.PeerMessage_Beat:
				m.heard(h, x.Beat)
			case *messages.PeerMessage_Forward:
				served.forward(x.Forward)
			}
		})
	}()
	select {
	case <-ctx.Done():
	case <-m.ctx.Done():
	}
	c.close(context.Canceled)
	return nil
}

// receiveHello waits a while for the first message; nil when it is something else.
func receiveHello(ctx context.Context, s Stream) (*messages.PeerHello, error) {
	got := make(chan *messages.PeerMessage, 1)
	failed := make(chan error, 1)
	go func() {
		m := new(messages.PeerMessage)
		if err := s.RecvMsg(m); err != nil {
			failed <- err
			return
		}
		got <- m
	}()
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case m := <-got:
		if g := m.GetGoodbye(); g != nil {
			return nil, messages.ErrorFrom(g.GetReason())
		}
		return m.GetHello(), nil
	case err := <-failed:
		return nil, err
	case <-timeout.C:
		return nil, messages.NewError(messages.Code_CODE_TIMEOUT, "no hello in time")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// served counts what another node has under way here.
type served struct {
	mesh *Mesh
	conn *conn

	mu    sync.Mutex
	calls int
	bytes int
}

// forward passes a proposal on to this node's replica.
func (s *served) forward(f *messages.ForwardRequest) {
	n, bytes := len(f.GetCommands()), messages.MessageSize(f)
	if n == 0 {
		return
	}
	if e := s.admit(f, bytes); e != nil {
		results := make([]*messages.Result, n)
		for i := range results {
			results[i] = &messages.Result{Error: e.Detail}
		}
		s.reply(f.GetCall(), 0, results)
		return
	}
	left := n
	s.mesh.cfg.Forwarded(&messages.Propose{RequestId: f.GetCall(), TimeoutMs: f.GetTimeoutMs(), Commands: f.GetCommands()},
		func(p *messages.Proposed) {
			s.mu.Lock()
			if left -= len(p.GetResults()); left <= 0 {
				s.calls--
				s.bytes -= bytes
			}
			s.mu.Unlock()
			s.reply(f.GetCall(), p.GetFirst(), p.GetResults())
		})
}

// admit counts a call or says why it is not taken. Only what clients and a node's
// watches ask for is passed on: a node's own commands of another kind are the leader's.
func (s *served) admit(f *messages.ForwardRequest, bytes int) *messages.Error {
	for _, c := range f.GetCommands() {
		switch c.GetOp().(type) {
		case nil:
			return messages.NewError(messages.Code_CODE_UNSUPPORTED,
				"the leader does not know this operation: it runs an older version")
		case *messages.Command_ClaimClock, *messages.Command_Tick, *messages.Command_ExpireLeases,
			*messages.Command_StepIndex, *messages.Command_Bootstrap, *messages.Command_RaiseApplyVersion:
			return messages.NewError(messages.Code_CODE_NOT_LEADER, "only the leader proposes this")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls > 0 && (s.calls >= callsMax || s.bytes+bytes > callBytesMax) {
		e := messages.NewError(messages.Code_CODE_OVERLOADED, "too much is under way from one node").WithLimit(callsMax)
		e.Detail.RetryAfterMs = 50
		return e
	}
	s.calls++
	s.bytes += bytes
	return nil
}

// reply cuts results into messages of a moderate size.
func (s *served) reply(call uint64, first uint32, results []*messages.Result) {
	for len(results) > 0 {
		n, bytes := 0, 0
		for n < len(results) {
			size := messages.ResultSize(results[n])
			if n > 0 && bytes+size > replyBytes {
				break
			}
			bytes += size
			n++
		}
		part := results[:n]
		if bytes > messageBytesMax-1024 {
			part = []*messages.Result{{Error: tooLargeToPass()}}
		}
		s.conn.push(&messages.PeerMessage{Message: &messages.PeerMessage_Forwarded{Forwarded: &messages.ForwardReply{
			Call: call, First: first, Results: part,
		}}}, nil)
		first += uint32(n)
		results = results[n:]
	}
}

func tooLargeToPass() *messages.ErrorDetail {
	e := messages.NewError(messages.Code_CODE_TOO_LARGE, "the answer is too large to be passed on").WithLimit(messageBytesMax)
	e.Detail.Outcome = messages.Outcome_OUTCOME_APPLIED
	return e.Detail
}
