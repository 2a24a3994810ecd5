package client

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// Waits between attempts to connect. A whole round over the endpoints goes without a
// wait; each further round doubles it, half of it at random.
const (
	redialBase = 20 * time.Millisecond
	redialMax  = 2 * time.Second

	routeMax = 64 // endpoints
)

// route chooses the next endpoint.
type route struct {
	endpoints  []string // those of the configuration first
	configured int
	next       int
	failures   int    // in a row
	last       string // the one that was chosen last
	leader     string // where the leader was said to be since then; "" if nobody said
}

func newRoute(endpoints []string, random func() uint64) *route {
	r := &route{endpoints: append([]string(nil), endpoints...), configured: len(endpoints)}
	for i := len(r.endpoints) - 1; i > 0; i-- {
		j := int(random() % uint64(i+1))
		r.endpoints[i], r.endpoints[j] = r.endpoints[j], r.endpoints[i]
	}
	return r
}

// learn takes the endpoints that a node tells of, up to routeMax, in place of those told
// before: members come and go. It reports whether there is more than one now.
func (r *route) learn(endpoints []string) bool {
	r.endpoints = r.endpoints[:r.configured]
	for _, e := range endpoints {
		if e != "" && len(r.endpoints) < routeMax && !slices.Contains(r.endpoints, e) {
			r.endpoints = append(r.endpoints, e)
		}
	}
	return len(r.endpoints) > 1
}

// hint takes where a node says that the leader is, and reports whether the client knows
// that endpoint. It is tried next, once: what goes through another node takes a hop more.
func (r *route) hint(leader string) bool {
	known := slices.Contains(r.endpoints, leader)
	if known {
		r.leader = leader
	}
	return known
}

// take is choose for a connection that is open already.
func (r *route) take(endpoint string) { r.last, r.leader = endpoint, "" }

func (r *route) choose() string {
	e := r.leader
	if e == "" || e == r.last {
		e = r.endpoints[r.next%len(r.endpoints)]
		r.next++
	}
	r.last, r.leader = e, ""
	return e
}

func (r *route) wait(random func() uint64) time.Duration {
	rounds := r.failures / len(r.endpoints)
	if rounds == 0 {
		return 0
	}
	d := min(redialBase<<min(rounds-1, 16), redialMax)
	return d/2 + time.Duration(random()%uint64(d/2+1))
}

// run keeps the client connected until ctx is over.
func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	defer func() {
		if stream, _ := c.moved(); stream != nil {
			_ = stream.Close()
		}
	}()
	r := newRoute(c.cfg.Endpoints, c.cfg.Random)
	for ctx.Err() == nil {
		stream, endpoint := c.moved()
		if stream != nil {
			r.take(endpoint)
		} else {
			if !Pause(ctx, c.cfg.Clock, r.wait(c.cfg.Random)) {
				return
			}
			endpoint = r.choose()
		}
		began := c.cfg.Clock.Now()
		greeted, err := c.connect(ctx, endpoint, stream, r)
		now := c.cfg.Clock.Now()
		switch {
		case ctx.Err() != nil:
			c.cfg.Logger.Info("closed", "endpoint", endpoint)
		case greeted:
			c.cfg.Logger.Info("disconnected", "endpoint", endpoint, "reason", err)
		default:
			c.cfg.Logger.Debug("not connected", "endpoint", endpoint, "reason", err)
		}
		if greeted && now-began >= redialMax {
			// It served: begin a new round, with a wait before the same node is tried again.
			r.failures = 1
		} else {
			// Also a node that greeted: while there is no leader each of them does, only to
			// refuse what it is asked, and the client would go round as fast as it can dial.
			r.failures++
		}
		c.mu.Lock()
		c.stream = nil
		c.stay()
		if c.renewer != nil {
			c.renewer.stop()
			c.renewer = nil
		}
		c.pipe.Disconnected(err)
		if !greeted && nobody(err) {
			c.pipe.Refuse(err)
		}
		c.advance(now)
		c.mu.Unlock()
	}
}

// connect opens a connection, unless there is one already, and serves it to its end. It
// returns whether the node greeted, and why it is over.
func (c *Client) connect(ctx context.Context, endpoint string, stream transport.ClientStream, r *route) (greeted bool, err error) {
	dial, cancel := context.WithCancel(ctx)
	defer cancel()
	late := c.cfg.Clock.AfterFunc(c.cfg.DialTimeout, cancel)
	if stream == nil {
		stream, err = c.cfg.Dialer.Dial(dial, endpoint)
	}
	if err != nil {
		late.Stop()
		if ctx.Err() == nil && dial.Err() != nil {
			err = messages.NewError(messages.Code_CODE_UNAVAILABLE, "%s did not answer within %v", endpoint, c.cfg.DialTimeout)
		}
		return false, err
	}
	defer stream.Close()
	// What is left of the time to connect is for the greeting.
	unblock := context.AfterFunc(dial, func() { _ = stream.Close() })
	hello, err := c.greet(dial, stream)
	late.Stop()
	unblock()
	if err != nil {
		return false, err
	}
	now := c.cfg.Clock.Now()
	c.mu.Lock()
	if err = c.pipe.Connected(hello, now); err == nil {
		c.stream = stream
		c.renewer = c.newRenewer(ctx, hello.GetCredentialsLeftMs())
		if c.cfg.Discover {
			c.pipe.SetRoam(r.learn(hello.GetEndpoints()))
		}
		c.heard(ctx, r, hello.GetLeaderEndpoint(), 0)
		c.advance(now)
	}
	c.mu.Unlock()
	if err != nil {
		return false, err
	}
	c.cfg.Logger.Info("connected", "endpoint", endpoint, "replica", hello.GetReplicaId(), "incarnation", hello.GetIncarnation())
	return true, c.serve(ctx, stream, r)
}

// heard takes where a node says that the leader is. The lock is held.
func (c *Client) heard(ctx context.Context, r *route, leader string, delay time.Duration) {
	if !r.hint(leader) {
		leader = ""
	}
	c.follow(ctx, r.last, leader, delay)
}

func (c *Client) greet(ctx context.Context, s transport.ClientStream) (*messages.ServerHello, error) {
	c.mu.Lock()
	hello := c.pipe.Hello(c.cfg.Name)
	c.mu.Unlock()
	if c.cfg.Credentials != nil {
		credentials, err := c.cfg.Credentials(ctx)
		if err != nil {
			return nil, err
		}
		hello.GetHello().Credentials = credentials
	}
	if err := s.Send(hello); err != nil {
		return nil, err
	}
	m, err := s.Recv()
	if err != nil {
		return nil, err
	}
	switch m := m.Message.(type) {
	case *messages.ServerMessage_Hello:
		return m.Hello, nil
	case *messages.ServerMessage_Goodbye:
		if err := messages.ErrorFrom(m.Goodbye.GetReason()); err != nil {
			return nil, err
		}
	}
	return nil, messages.NewError(messages.Code_CODE_PROTOCOL, "the node did not greet")
}

// serve reads until the connection ends or is given up; a second goroutine writes.
func (c *Client) serve(ctx context.Context, s transport.ClientStream, r *route) error {
	var ended atomic.Bool
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write(s, &ended)
	}()
	err := c.read(ctx, s, r)
	ended.Store(true)
	_ = s.Close()
	c.kick()
	<-written
	return err
}

func (c *Client) read(ctx context.Context, s transport.ClientStream, r *route) error {
	for {
		m, err := s.Recv()
		now := c.cfg.Clock.Now()
		c.mu.Lock()
		if err != nil {
			if leave := c.pipe.Leave(); leave != nil {
				err = leave // it was given up before it ended
			}
			c.mu.Unlock()
			return err
		}
		c.pipe.Receive(m, now)
		if a := m.GetAuthenticated(); a != nil {
			c.renewer.answered(a)
		}
		if hint := m.GetLeaderHint(); hint != nil {
			if len(hint.Endpoints) > 0 && c.cfg.Discover {
				c.pipe.SetRoam(r.learn(hint.Endpoints))
			}
			c.heard(ctx, r, hint.GetEndpoint(), moveSettle)
		}
		leave := c.pipe.Leave()
		c.advance(now)
		sendable := c.pipe.Sendable(now)
		woken := c.pipe.Woken()
		c.mu.Unlock()
		signal(woken)
		if leave != nil {
			return leave
		}
		if sendable {
			c.kick()
		}
	}
}

func (c *Client) write(s transport.ClientStream, ended *atomic.Bool) {
	for !ended.Load() {
		now := c.cfg.Clock.Now()
		c.mu.Lock()
		m := c.pipe.Next(now)
		if m == nil {
			c.advance(now) // a pause may have begun since the timer was set
		}
		c.mu.Unlock()
		if m == nil {
			<-c.wake
			// Let the callers that run now put theirs in too: it costs a lone caller nothing,
			// and with a thousand it saves a third of the allocations of a call.
			runtime.Gosched()
			continue
		}
		if err := s.Send(m); err != nil {
			_ = s.Close() // the reader says why it ended
			return
		}
	}
}
