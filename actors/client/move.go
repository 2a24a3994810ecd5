package client

import (
	"context"
	"errors"
	"time"

	"github.com/concord-kv/concord/cluster/transport"
)

// Preference is which node a client would rather be connected to.
type Preference uint8

const (
	// AnyNode takes the endpoints as they come, from a random one on: clients, and what
	// their connections and watches cost, are spread over the nodes.
	AnyNode Preference = iota
	// LeaderNode goes to the node that leads, and after it when another one leads: writes
	// and linearizable reads save a hop, and what they share with others there is more.
	// Every client that wants it loads the same node. The leader is followed only to an
	// endpoint that the client knows, by Endpoints or with Discover; where it cannot be
	// reached the client stays at the node that serves.
	LeaderNode
)

// Waits before a client that prefers the leader goes to a new one: as long as it takes to
// see whether it stays, and as much again at random so that not all come at once; and
// before it tries one again that did not answer. Half of each is at random.
const (
	moveSettle = 2 * time.Second
	moveAgain  = 30 * time.Second
)

// errMoved is why a connection is given up for one to the leader.
var errMoved = errors.New("another node leads")

// move is the way of a client that prefers the leader. The client's lock guards it.
type move struct {
	leader string // where the leader is said to be
	timer  Timer
	// ready is a connection to the leader that is open and not greeted yet; the next one
	// that is used.
	ready transport.ClientStream
	at    string
}

// follow hears where the leader is, and plans to go there after a wait at random within
// delay, unless it is here. The lock is held.
func (c *Client) follow(ctx context.Context, here, leader string, delay time.Duration) {
	m := &c.move
	if c.cfg.Prefer != LeaderNode || m.ready != nil || leader == m.leader && m.timer != nil {
		return
	}
	m.leader = leader
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if leader == "" || leader == here {
		return
	}
	if delay > 0 {
		delay = delay/2 + time.Duration(c.cfg.Random()%uint64(delay/2))
	}
	m.timer = c.cfg.Clock.AfterFunc(delay, func() { c.approach(ctx, here, leader) })
}

// approach opens a connection to the leader, and when it is there gives up the present
// one, which serves until then.
func (c *Client) approach(ctx context.Context, here, leader string) {
	step(c.cfg.Clock, "approach")
	if !c.wants(leader) {
		return
	}
	dial, cancel := context.WithCancel(ctx)
	defer cancel()
	late := c.cfg.Clock.AfterFunc(c.cfg.DialTimeout, cancel)
	stream, err := c.cfg.Dialer.Dial(dial, leader)
	late.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.move
	wanted := c.stream != nil && !c.closed && m.leader == leader
	switch {
	case err == nil && wanted:
		m.timer, m.ready, m.at = nil, stream, leader
		now := c.cfg.Clock.Now()
		c.pipe.Quit(errMoved, now)
		c.advance(now)
	case err == nil:
		_ = stream.Close()
	case wanted:
		m.timer = nil
		c.cfg.Logger.Info("the leader is not reached", "endpoint", leader, "reason", err)
		c.follow(ctx, here, leader, moveAgain)
	}
}

func (c *Client) wants(leader string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream != nil && !c.closed && c.move.leader == leader
}

// moved returns the connection to the leader that approach has opened, if it has.
func (c *Client) moved() (stream transport.ClientStream, endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.move
	stream, endpoint = m.ready, m.at
	m.ready, m.at = nil, ""
	return stream, endpoint
}

// stay forgets where the leader is said to be: the connection is over. The lock is held.
func (c *Client) stay() {
	if m := &c.move; m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	c.move.leader = ""
}
