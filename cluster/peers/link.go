package peers

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// Forward is a proposal on its way to the leader. The functions are called from any
// goroutine and must only enqueue. Each command gets either a result or the one failure.
type Forward struct {
	Commands  []*messages.Command
	TimeoutMs uint32
	Results   func(first uint32, results []*messages.Result)
	// Failed: the link was lost. The commands without a result were not applied, or
	// nobody knows: the outcome says which.
	Failed func(*messages.ErrorDetail)
}

// Forward sends a proposal to a node. An error means that it was not sent, and f's
// functions are not called.
func (m *Mesh) Forward(to uint64, f Forward) error {
	m.mu.Lock()
	l := m.links[to]
	m.mu.Unlock()
	if l == nil {
		return unreachable(to)
	}
	return l.forward(f)
}

func unreachable(id uint64) *messages.Error {
	e := messages.NewError(messages.Code_CODE_NO_LEADER, "replica %d leads and cannot be reached from here", id)
	e.Detail.RetryAfterMs = 50
	return e
}

// link is this node's connection to one other, dialled again for as long as that one
// is a member.
type link struct {
	mesh    *Mesh
	id      uint64
	address string
	ctx     context.Context
	stop    context.CancelFunc

	mu    sync.Mutex
	conn  *conn // nil while there is none
	calls map[uint64]*call
	bytes int
	next  uint64
}

type call struct {
	Forward
	left  int
	bytes int
	sent  bool
}

func newLink(m *Mesh, id uint64, address string) *link {
	l := &link{mesh: m, id: id, address: address, calls: map[uint64]*call{}}
	l.ctx, l.stop = context.WithCancel(m.ctx)
	return l
}

func (l *link) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil
}

func (l *link) forward(f Forward) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return unreachable(l.id)
	}
	request := &messages.ForwardRequest{Call: l.next + 1, TimeoutMs: f.TimeoutMs, Commands: f.Commands}
	bytes := messages.MessageSize(request)
	if len(l.calls) > 0 && (len(l.calls) >= callsMax || l.bytes+bytes > callBytesMax) {
		e := messages.NewError(messages.Code_CODE_OVERLOADED, "too much is under way to the leader").WithLimit(callsMax)
		e.Detail.RetryAfterMs = 50
		return e
	}
	l.next++
	c := &call{Forward: f, left: len(f.Commands), bytes: bytes}
	l.calls[l.next] = c
	l.bytes += bytes
	// The lock is held while it is queued: calls keep their order.
	ok := l.conn.push(&messages.PeerMessage{Message: &messages.PeerMessage_Forward{Forward: request}}, func() {
		l.mu.Lock()
		c.sent = true
		l.mu.Unlock()
	})
	if !ok {
		delete(l.calls, l.next)
		l.bytes -= bytes
		return unreachable(l.id)
	}
	return nil
}

func (l *link) forwarded(r *messages.ForwardReply) {
	l.mu.Lock()
	c := l.calls[r.GetCall()]
	if c == nil {
		l.mu.Unlock()
		return
	}
	if c.left -= len(r.GetResults()); c.left <= 0 {
		delete(l.calls, r.GetCall())
		l.bytes -= c.bytes
	}
	l.mu.Unlock()
	c.Results(r.GetFirst(), r.GetResults())
}

// Waits between attempts to dial.
const (
	redialBase = 20 * time.Millisecond
	redialMax  = 500 * time.Millisecond
)

// run keeps the link open until it is stopped.
func (l *link) run() {
	wait, said := redialBase, ""
	for l.ctx.Err() == nil {
		opened, err := l.connect()
		if e := (*messages.Error)(nil); errors.As(err, &e) && l.mesh.cfg.Refused != nil {
			l.mesh.cfg.Refused(e)
		}
		if l.ctx.Err() != nil {
			return
		}
		if opened {
			wait, said = redialBase, ""
			l.mesh.cfg.Logger.Info("a link to a peer was lost", "replica", l.id, "error", err)
		} else if text := err.Error(); text != said {
			// Once a cause: it is tried again several times a second.
			said = text
			l.mesh.cfg.Logger.Warn("no link to a peer", "replica", l.id, "address", l.address, "error", err)
		}
		select {
		case <-time.After(l.mesh.redialWait(wait)):
		case <-l.ctx.Done():
			return
		}
		wait = min(2*wait, redialMax)
	}
}

func (l *link) connect() (opened bool, err error) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	s, h, hangUp, err := l.mesh.dial(ctx, l.address, l.id)
	if err != nil {
		return false, err
	}
	defer hangUp()
	c := newConn(s, cancel, l.mesh)
	l.mu.Lock()
	l.conn = c
	l.mu.Unlock()
	l.mesh.learn(append(h.GetKnown(), h.GetFrom()))
	err = c.serve(func(m *messages.PeerMessage) {
		switch x := m.GetMessage().(type) {
		case *messages.PeerMessage_Beat:
			l.mesh.heard(h, x.Beat)
		case *messages.PeerMessage_Forwarded:
			l.forwarded(x.Forwarded)
		}
	})
	l.lost()
	return true, err
}

// lost ends the calls that have no answer.
func (l *link) lost() {
	l.mu.Lock()
	l.conn = nil
	calls := l.calls
	l.calls, l.bytes = map[uint64]*call{}, 0
	l.mu.Unlock()
	numbers := make([]uint64, 0, len(calls))
	for n := range calls {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		if c := calls[n]; c.sent {
			c.Failed(messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "the link to the leader was lost").Detail)
		} else {
			c.Failed(unreachable(l.id).Detail)
		}
	}
}

// dial opens a stream and exchanges hellos. hangUp ends it.
func (m *Mesh) dial(ctx context.Context, address string, to uint64) (s Stream, h *messages.PeerHello, hangUp func(), err error) {
	open := m.dialGRPC
	if m.cfg.Transport != nil {
		open = m.cfg.Transport.Dial
	}
	s, end, err := open(ctx, address)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if err = s.SendMsg(m.hello(to)); err != nil {
		// The other side ended the stream; its status says why.
		if e := s.RecvMsg(new(messages.PeerMessage)); e != nil {
			err = e
		}
		return nil, nil, nil, err
	}
	if h, err = receiveHello(ctx, s); err != nil {
		return nil, nil, nil, err
	}
	if e := m.refuse(h); e != nil {
		err = e
		return nil, nil, nil, err
	}
	if to != 0 && h.GetFrom().GetReplicaId() != to {
		err = messages.NewError(messages.Code_CODE_INVALID_ARGUMENT, "%s is replica %d's address, not replica %d's", address, h.GetFrom().GetReplicaId(), to)
		return nil, nil, nil, err
	}
	return s, h, end, nil
}

func (m *Mesh) dialGRPC(ctx context.Context, address string) (Stream, func(), error) {
	creds := insecure.NewCredentials()
	if m.cfg.ClientTLS != nil {
		creds = credentials.NewTLS(m.cfg.ClientTLS())
	}
	cc, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: helloTimeout}).DialContext(ctx, "tcp", addr)
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithStaticStreamWindowSize(windowBytes),
		grpc.WithStaticConnWindowSize(windowBytes),
		experimental.WithBufferPool(transport.Buffers()),
		grpc.WithIdleTimeout(0), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(messageBytesMax),
			grpc.ForceCodecV2(transport.Codec()),
		),
	)
	if err != nil {
		return nil, nil, err
	}
	s, err := cc.NewStream(ctx, &connectDesc, "/"+serviceName+"/"+connectMethod)
	if err != nil {
		_ = cc.Close()
		return nil, nil, err
	}
	return s, func() { _ = cc.Close() }, nil
}

// ask gets a node's hello and hangs up.
func (m *Mesh) ask(address string) (*messages.PeerHello, error) {
	ctx, cancel := context.WithTimeout(m.ctx, helloTimeout)
	defer cancel()
	_, h, hangUp, err := m.dial(ctx, address, 0)
	if err != nil {
		return nil, err
	}
	hangUp()
	return h, nil
}
