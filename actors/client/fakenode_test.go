package client

import (
	"context"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// fakeCluster is what all fake nodes share: enough of apply to tell whether a write took
// effect once.
type fakeCluster struct {
	mu       sync.Mutex
	revision uint64
	applied  map[string]int
	order    []string
	sessions map[uint64]*fakeSession
	keyed    map[string]*messages.Result
	fenced   map[string]bool
	nextID   uint64
	leases   map[uint64]int // live leases, with the number of keep-alives
	events   []*messages.Event
}

type fakeSession struct {
	acked   uint64
	last    uint64
	answers map[uint64]*messages.Result
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{
		revision: 100, applied: map[string]int{}, sessions: map[uint64]*fakeSession{}, keyed: map[string]*messages.Result{},
		fenced: map[string]bool{}, leases: map[uint64]int{}, nextID: 1,
	}
}

func refuse(code messages.Code) *messages.Result {
	return &messages.Result{Error: messages.NewError(code, "fake").Detail}
}

// apply is one command of the log.
func (c *fakeCluster) apply(w *messages.Write) *messages.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.IdempotencyKey != "" {
		if r := c.keyed[w.IdempotencyKey]; r != nil {
			return &messages.Result{Revision: r.Revision, Error: r.Error, Answer: r.Answer, Replayed: true}
		}
		if c.fenced[w.IdempotencyKey] {
			return refuse(messages.Code_CODE_IDEMPOTENCY_FENCED)
		}
		r := c.execute(w)
		c.keyed[w.IdempotencyKey] = r
		return r
	}
	if w.SessionId == 0 {
		return c.execute(w)
	}
	s := c.sessions[w.SessionId]
	switch {
	case s == nil:
		return refuse(messages.Code_CODE_SESSION_EXPIRED)
	case w.Sequence <= s.last:
		r := s.answers[w.Sequence]
		if r == nil {
			return refuse(messages.Code_CODE_OUT_OF_ORDER) // a late copy: its answer was acknowledged
		}
		return &messages.Result{Revision: r.Revision, Error: r.Error, Answer: r.Answer, Replayed: true}
	case w.Sequence != s.last+1:
		return refuse(messages.Code_CODE_OUT_OF_ORDER)
	}
	for ; s.acked < w.Acknowledged; s.acked++ {
		delete(s.answers, s.acked+1)
	}
	if len(s.answers) >= messages.SessionSequenceWindowMax {
		return refuse(messages.Code_CODE_SESSION_LIMIT)
	}
	r := c.execute(w)
	s.last = w.Sequence
	s.answers[w.Sequence] = r
	return r
}

func (c *fakeCluster) execute(w *messages.Write) *messages.Result {
	r := &messages.Result{Revision: c.revision}
	switch op := w.Op.(type) {
	case *messages.Write_Put:
		key := string(op.Put.Key)
		c.revision++
		c.applied[key]++
		c.order = append(c.order, key)
		c.events = append(c.events, &messages.Event{Revision: c.revision, Type: messages.EventType_EVENT_TYPE_PUT, Record: &messages.Record{Key: op.Put.Key}})
		r.Revision, r.Answer = c.revision, &messages.Result_Put{Put: &messages.PutResult{}}
	case *messages.Write_Txn:
		r.Answer = &messages.Result_Txn{Txn: &messages.TxnResult{Succeeded: true}}
	case *messages.Write_OpenSession:
		id := c.nextID
		c.nextID++
		c.sessions[id] = &fakeSession{answers: map[uint64]*messages.Result{}}
		c.leases[id] = 0
		r.Answer = &messages.Result_OpenSession{OpenSession: &messages.OpenSessionResult{SessionId: id, LeaseId: id, TtlMs: op.OpenSession.TtlMs}}
	case *messages.Write_CloseSession:
		delete(c.sessions, op.CloseSession.SessionId)
		delete(c.leases, op.CloseSession.SessionId)
		r.Answer = &messages.Result_CloseSession{CloseSession: &messages.CloseSessionResult{}}
	case *messages.Write_GrantLease:
		id := c.nextID
		c.nextID++
		c.leases[id] = 0
		r.Answer = &messages.Result_GrantLease{GrantLease: &messages.GrantLeaseResult{LeaseId: id, TtlMs: op.GrantLease.TtlMs}}
	case *messages.Write_RevokeLease:
		delete(c.leases, op.RevokeLease.LeaseId)
		r.Answer = &messages.Result_RevokeLease{RevokeLease: &messages.RevokeLeaseResult{}}
	case *messages.Write_KeepAliveLease:
		id := op.KeepAliveLease.LeaseId
		if _, ok := c.leases[id]; !ok {
			return refuse(messages.Code_CODE_LEASE_NOT_FOUND)
		}
		c.leases[id]++
		r.Answer = &messages.Result_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLeaseResult{LeaseId: id, TtlMs: 9000, RemainingTtlMs: 9000}}
	case *messages.Write_ResolveIdempotency:
		key := op.ResolveIdempotency.Key
		found := &messages.ResolveIdempotencyResult{State: messages.ResolveIdempotencyResult_STATE_NOT_FOUND}
		switch {
		case c.keyed[key] != nil:
			found.State, found.Result = messages.ResolveIdempotencyResult_STATE_RECORDED, c.keyed[key]
		case op.ResolveIdempotency.Fence:
			c.fenced[key] = true
			found.State = messages.ResolveIdempotencyResult_STATE_FENCED
		}
		r.Answer = &messages.Result_ResolveIdempotency{ResolveIdempotency: found}
	}
	return r
}

// fate is what becomes of one operation at a fake node.
type fate uint8

const (
	serve         fate = iota
	loseReply          // applied, the reply is lost
	loseRequest        // not applied, no reply
	refuseBefore       // not applied: overloaded, no_leader, ...
	answerUnknown      // timeout with outcome unknown, and applied a while later
	answerNever        // timeout with outcome unknown, and never applied
	cutBefore          // the connection ends before it is applied
	cutAfter           // ... and after
	answerOther        // the answer to a request that was not made
)

// fakeNode speaks the session protocol to one cluster.
type fakeNode struct {
	cluster *fakeCluster
	hello   *messages.ServerHello

	mu      sync.Mutex
	decide  func(op *messages.Operation) (fate, messages.Code) // nil serves all
	silent  bool                                               // takes everything, answers nothing, as a process that is stopped
	refuses bool                                               // nobody listens
	dials   int
	frames  []*messages.Frame
	streams []transport.ServerStream
}

func newFakeNode(c *fakeCluster) *fakeNode { return &fakeNode{cluster: c} }

// setDecide says what becomes of operations from now on.
func (n *fakeNode) setDecide(f func(op *messages.Operation) (fate, messages.Code)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.decide = f
}

func (n *fakeNode) setSilent(silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = silent
}

func (n *fakeNode) isSilent() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent
}

func (n *fakeNode) refuse(all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuses = all
}

func (n *fakeNode) isRefusing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refuses
}

// took returns the frames so far.
func (n *fakeNode) took() []*messages.Frame {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frames[:len(n.frames):len(n.frames)]
}

// count is how often a put of this key was applied.
func (c *fakeCluster) count(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied[key]
}

func (c *fakeCluster) sessionCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions)
}

// renewals is how often a lease was kept alive; -1 when it is gone.
func (c *fakeCluster) renewals(id uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.leases[id]; ok {
		return n
	}
	return -1
}

func (n *fakeNode) handle(s transport.ServerStream) {
	n.mu.Lock()
	n.dials++
	n.streams = append(n.streams, s)
	n.mu.Unlock()
	if m, err := s.Recv(); err != nil || m.GetHello() == nil {
		return
	}
	if n.isSilent() {
		for _, err := s.Recv(); err == nil; _, err = s.Recv() {
		}
		return
	}
	hello := n.hello
	if hello == nil {
		hello = &messages.ServerHello{Protocol: 1, ClusterId: []byte("c"), Incarnation: 1, HeartbeatMs: 1000, ValueBytesMax: 1 << 20}
	}
	if s.Send(&messages.ServerMessage{Message: &messages.ServerMessage_Hello{Hello: hello}}) != nil {
		return
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if n.isSilent() {
					continue
				}
				if s.Send(&messages.ServerMessage{Message: &messages.ServerMessage_Heartbeat{Heartbeat: &messages.Heartbeat{}}}) != nil {
					return
				}
			case <-stop:
				return
			}
		}
	}()
	for {
		m, err := s.Recv()
		if err != nil {
			return
		}
		f := m.GetFrame()
		if f == nil {
			continue
		}
		n.mu.Lock()
		n.frames = append(n.frames, f)
		silent := n.silent
		n.mu.Unlock()
		if silent {
			continue
		}
		replies, cut := n.serveFrame(s, f)
		if len(replies) > 0 && s.Send(&messages.ServerMessage{Message: &messages.ServerMessage_Replies{Replies: &messages.Replies{Replies: replies}}}) != nil {
			return
		}
		if cut {
			s.Close(messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "cut").Detail)
			return
		}
	}
}

func (n *fakeNode) serveFrame(s transport.ServerStream, f *messages.Frame) (replies []*messages.Reply, cut bool) {
	for i, op := range f.Operations {
		call := f.FirstCall + uint64(i)
		what, code := serve, messages.Code_CODE_OK
		n.mu.Lock()
		decide := n.decide
		n.mu.Unlock()
		if decide != nil {
			what, code = decide(op)
		}
		fail := func(o messages.Outcome) {
			d := messages.NewError(code, "fake").Detail
			d.Outcome = o
			replies = append(replies, &messages.Reply{Call: call, Reply: &messages.Reply_Error{Error: d}})
		}
		switch what {
		case serve:
			if r := n.answer(s, call, op); r != nil {
				replies = append(replies, r)
			}
		case loseReply:
			n.answer(s, call, op)
		case loseRequest:
		case refuseBefore:
			fail(messages.Outcome_OUTCOME_NOT_APPLIED)
		case answerUnknown:
			w := op.GetWrite()
			fail(messages.Outcome_OUTCOME_UNKNOWN)
			if w != nil {
				time.AfterFunc(30*time.Millisecond, func() { n.cluster.apply(w) })
			}
		case answerNever:
			fail(messages.Outcome_OUTCOME_UNKNOWN)
		case answerOther:
			replies = append(replies, &messages.Reply{Call: call, Reply: &messages.Reply_Result{Result: &messages.Result{
				Answer: &messages.Result_Put{Put: &messages.PutResult{}},
			}}})
		case cutBefore:
			return replies, true
		case cutAfter:
			n.answer(s, call, op)
			return replies, true
		}
	}
	return replies, false
}

func (n *fakeNode) answer(s transport.ServerStream, call uint64, op *messages.Operation) *messages.Reply {
	switch o := op.Operation.(type) {
	case *messages.Operation_Write:
		return &messages.Reply{Call: call, Reply: &messages.Reply_Result{Result: n.cluster.apply(o.Write)}}
	case *messages.Operation_Watch:
		go n.watch(s, o.Watch)
		from := o.Watch.FromRevision
		if from == 0 {
			n.cluster.mu.Lock()
			from = n.cluster.revision + 1
			n.cluster.mu.Unlock()
		}
		return &messages.Reply{Call: call, Reply: &messages.Reply_Watch{Watch: &messages.WatchStarted{WatchId: o.Watch.WatchId, FromRevision: from}}}
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return &messages.Reply{Call: call, Reply: &messages.Reply_Query{Query: &messages.QueryReply{
		Revision: n.cluster.revision,
		Reply:    &messages.QueryReply_Get{Get: &messages.GetReply{Record: &messages.Record{Key: []byte("k"), Version: 1}}},
	}}}
}

// watch delivers what there is, then what comes, until the stream ends.
func (n *fakeNode) watch(s transport.ServerStream, r *messages.WatchRequest) {
	next := r.FromRevision
	if r.After != nil {
		next = r.After.Revision + 1
	}
	if next == 0 {
		n.cluster.mu.Lock()
		next = n.cluster.revision + 1
		n.cluster.mu.Unlock()
	}
	for {
		if n.isSilent() {
			return // nothing more comes on this stream
		}
		n.cluster.mu.Lock()
		events := n.cluster.events
		n.cluster.mu.Unlock()
		for _, e := range events {
			if e.Revision < next {
				continue
			}
			next = e.Revision + 1
			b := &messages.WatchBatch{WatchId: r.WatchId, Events: []*messages.Event{e}, Last: true, To: AfterRevision(e.Revision)}
			if s.Send(&messages.ServerMessage{Message: &messages.ServerMessage_WatchBatch{WatchBatch: b}}) != nil {
				return
			}
		}
		if s.Send(&messages.ServerMessage{Message: &messages.ServerMessage_Heartbeat{Heartbeat: &messages.Heartbeat{}}}) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond) // a fake node's poll, in virtual time
	}
}

// cut ends every connection of the node.
func (n *fakeNode) cut() {
	n.mu.Lock()
	streams := n.streams
	n.streams = nil
	n.mu.Unlock()
	for _, s := range streams {
		s.Close(nil)
	}
}

// fakeNet dials fake nodes by name. A name without a node refuses.
type fakeNet map[string]*fakeNode

func (f fakeNet) Dial(ctx context.Context, endpoint string) (transport.ClientStream, error) {
	n := f[endpoint]
	if n == nil || n.isRefusing() {
		return nil, messages.NewError(messages.Code_CODE_UNAVAILABLE, "dial %s: refused", endpoint)
	}
	return transport.NewInProcess(n.handle).Dial(ctx, endpoint)
}

// virtualClock reads the time of a synctest bubble.
type virtualClock struct{ start time.Time }

func (c virtualClock) Now() time.Duration { return time.Since(c.start) }
func (c virtualClock) AfterFunc(d time.Duration, f func()) Timer {
	return time.AfterFunc(d, f)
}

// newTestClient makes a client of fake nodes; it is closed with the test.
func newTestClient(t *testing.T, net fakeNet, change func(*Config)) *Client {
	t.Helper()
	cfg := Config{Dialer: net, Name: "test", Clock: virtualClock{time.Now()}, Random: mathrand.New(mathrand.NewPCG(1, 2)).Uint64}
	for _, name := range []string{"n1", "n2", "n3"} {
		if net[name] != nil {
			cfg.Endpoints = append(cfg.Endpoints, name)
		}
	}
	if len(cfg.Endpoints) == 0 {
		cfg.Endpoints = []string{"nowhere"}
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
