package etcd

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/concord-kv/concord/messages"
)

// Client is who a connection to a session is for.
type Client struct {
	// Certificate is the name in the client's verified certificate; empty without one.
	Certificate string
	// Token was handed out by Authenticate; empty without one. It goes first.
	Token string
}

// clientOf returns who a call comes from.
func clientOf(ctx context.Context) Client {
	var c Client
	md, _ := metadata.FromIncomingContext(ctx)
	for _, name := range []string{rpctypes.TokenFieldNameGRPC, rpctypes.TokenFieldNameSwagger} {
		if v := md.Get(name); len(v) > 0 && v[0] != "" {
			c.Token = v[0]
			break
		}
	}
	if p, ok := peer.FromContext(ctx); ok {
		if t, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(t.State.VerifiedChains) > 0 {
			cert := t.State.VerifiedChains[0][0]
			if c.Certificate = cert.Subject.CommonName; c.Certificate == "" && len(cert.DNSNames) > 0 {
				c.Certificate = cert.DNSNames[0]
			}
		}
	}
	return c
}

// sessions are the connections to this node's sessions, shared by the calls of each
// client: who a client is decides what it may do, and the session decides that.
type sessions struct {
	dial func(context.Context, Client) (Stream, error)
	now  func() time.Duration
	each int

	mu     sync.Mutex
	pools  map[Client]*pool
	closed bool
}

// poolIdle is how long the connections of a client that does nothing are kept, once there
// are more than poolsMin clients.
const (
	poolIdle = 5 * time.Minute
	poolsMin = 64
)

func newSessions(dial func(context.Context, Client) (Stream, error), now func() time.Duration, each int) *sessions {
	return &sessions{dial: dial, now: now, each: each, pools: map[Client]*pool{}}
}

// get returns a connection for whoever calls.
func (s *sessions) get(ctx context.Context) (*conn, error) {
	who := clientOf(ctx)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node stops")
	}
	p := s.pools[who]
	if p == nil {
		s.evict()
		p = newPool(func(ctx context.Context) (*conn, error) { return s.open(ctx, who, nil) }, s.each)
		s.pools[who] = p
	}
	p.used = s.now()
	s.mu.Unlock()
	return p.get(ctx)
}

// evict ends what nobody has used for long. The lock is held.
func (s *sessions) evict() {
	if len(s.pools) < poolsMin {
		return
	}
	for who, p := range s.pools {
		if s.now()-p.used > poolIdle {
			delete(s.pools, who)
			p.close()
		}
	}
}

// open opens a connection for a client.
func (s *sessions) open(ctx context.Context, who Client, onWatch func(*messages.ServerMessage)) (*conn, error) {
	stream, err := s.dial(ctx, who)
	if err != nil {
		return nil, err
	}
	c := newConn(stream, onWatch)
	if err := c.open("etcd", credentialsOf(who)); err != nil {
		return nil, who.refusal(err)
	}
	return c, nil
}

func credentialsOf(who Client) *messages.Credentials {
	if who.Token == "" {
		return nil
	}
	return &messages.Credentials{Token: who.Token}
}

// refusal says in etcd's words that a session does not know who somebody is: a client with
// a token gets another one, one whose certificate names no user may nothing, one without
// either is told that it needs a name.
func (c Client) refusal(err error) error {
	switch {
	case c.Token != "" || !refused(err, messages.Code_CODE_UNAUTHENTICATED):
		return err
	case c.Certificate != "":
		return rpctypes.ErrGRPCPermissionDenied
	}
	return rpctypes.ErrGRPCUserEmpty
}

func (s *sessions) close() {
	s.mu.Lock()
	s.closed = true
	pools := s.pools
	s.pools = nil
	s.mu.Unlock()
	for _, p := range pools {
		p.close()
	}
}

// do sends one operation and waits for its answer.
func (s *sessions) do(ctx context.Context, op *messages.Operation) (*messages.Reply, error) {
	c, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.do(ctx, op)
	if err != nil {
		return nil, clientOf(ctx).refusal(err)
	}
	return r, nil
}

// write proposes a change and returns what apply answered.
func (s *sessions) write(ctx context.Context, w *messages.Write) (*messages.Result, error) {
	return resultOf(s.do(ctx, &messages.Operation{Operation: &messages.Operation_Write{Write: w}}))
}

func resultOf(r *messages.Reply, err error) (*messages.Result, error) {
	if err != nil {
		return nil, err
	}
	if e := r.GetResult().GetError(); e != nil {
		return nil, messages.ErrorFrom(e)
	}
	return r.GetResult(), nil
}

// query reads.
func (s *sessions) query(ctx context.Context, q *messages.Query) (*messages.QueryReply, error) {
	r, err := s.do(ctx, &messages.Operation{Operation: &messages.Operation_Query{Query: q}})
	return r.GetQuery(), err
}

// admin asks the node's operator.
func (s *sessions) admin(ctx context.Context, a *messages.AdminRequest) (*messages.AdminReply, error) {
	r, err := s.do(ctx, &messages.Operation{Operation: &messages.Operation_Admin{Admin: a}})
	return r.GetAdmin(), err
}
