package client

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

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
		r.failed(greeted && now-began >= redialMax, err)
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
