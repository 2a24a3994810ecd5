package session

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// admission counts what all sessions of the node hold together, and what each client
// holds on all its connections. A count may pass its limit by what is being added at
// the same moment, and is then taken back.
//
// It is fair: while n clients have calls in flight, one may hold three quarters of an
// nth of what the node takes. So whoever comes new finds room, however much the others
// ask, and one who is alone has most of the node.
type admission struct {
	limits      Limits
	connections atomic.Int64
	calls       atomic.Int64
	bytes       atomic.Int64
	active      atomic.Int64 // clients with calls in flight
	queued      atomic.Int64 // bytes that wait for clients to read them
	longs       atomic.Int64 // calls among these that may take long

	mu       sync.Mutex
	clients  map[string]*client
	churning map[*client]struct{} // those whose account is not full
	heavy    *turnstile
	refusals transport.Refusals
	behind   atomic.Int64 // clients that something waits for
}

func newAdmission(l Limits) *admission {
	a := &admission{limits: l}
	a.heavy = newTurnstile(func() bool { return a.calls.Load() > a.longs.Load() })
	return a
}

// client is one user, or, without users, one certificate or one host.
type client struct {
	name                 string
	inProcess            bool  // of the process that embeds the node
	connections          int64 // under admission.mu
	churn                churn // under admission.mu
	calls, writes, bytes atomic.Int64
	queued               atomic.Int64 // bytes that wait for it, on all its connections
	behind               atomic.Int64 // connections of it that something waits for
}

// clientOf names who is counted as one.
func clientOf(c *core) string {
	switch {
	case c.who.inProcess && c.who.userID == 0:
		return "process"
	case c.who.name != "":
		return "user " + c.who.name
	}
	host, _, err := net.SplitHostPort(c.peer.Address)
	if err != nil {
		host = c.peer.Address
	}
	return "host " + host
}

// share finds the client that a new connection is counted for.
func (a *admission) share(c *core) *messages.Error {
	if c.client != nil {
		return nil
	}
	name := clientOf(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.clients[name]
	if s == nil {
		s = &client{name: name, inProcess: c.who.inProcess}
	}
	if s.connections >= int64(a.limits.ConnectionsPerClient) {
		return overloaded("this client has its fill of connections", int64(a.limits.ConnectionsPerClient))
	}
	if a.clients == nil {
		a.clients = map[string]*client{}
	}
	a.clients[name] = s
	s.connections++
	c.client = s
	c.port.belongs(s)
	return nil
}

// unshare ends what share began.
func (a *admission) unshare(s *client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.connections--
	a.forget(s)
}

// aheadBytes is what may wait for one client before its reads are held back: enough that
// one that reads never notices. crowdedBytes is the least of it.
const (
	aheadBytes   = 1 << 20
	crowdedBytes = 32 << 10
)

// waits notes that so much waits on a connection, where before it was as much. of is nil
// for one that has not said who it is.
func (a *admission) waits(of *client, before, now int64) {
	a.queued.Add(now - before)
	if of == nil || now == before {
		return
	}
	switch all := of.queued.Add(now - before); {
	case now > before && all == now-before:
		a.behind.Add(1)
	case now < before && all == 0:
		a.behind.Add(-1)
	}
	switch {
	case before == 0:
		of.behind.Add(1)
	case now == 0:
		of.behind.Add(-1)
	}
}

// queueMax is what may wait on a connection of a client before its reads are held back: its
// share of half of what may wait for all, once a quarter of that does.
func (a *admission) queueMax(of *client) int64 {
	most := min(a.limits.QueueBytesMax/2, aheadBytes)
	if a.queued.Load() > a.limits.QueueBytesPerNode/4 {
		most = min(most, max(a.portion(of), crowdedBytes))
	}
	return most
}

// clientPortion is a client's share of half of what may wait for all. It is that, however
// many connections the client has.
func (a *admission) clientPortion() int64 {
	return a.limits.QueueBytesPerNode / 2 / max(1, a.behind.Load())
}

// portion is the share of one of a client's connections in what may wait for the client.
func (a *admission) portion(of *client) int64 {
	if of == nil {
		return crowdedBytes
	}
	return a.clientPortion() / max(1, of.behind.Load())
}

// crowdedOut reports whether a connection for which so much waits has to end: more waits
// for all than may, its client has more than its share, and it more than its share of that.
// So those who are furthest behind end first.
func (a *admission) crowdedOut(of *client, backlog int64) bool {
	return a.queued.Load() > a.limits.QueueBytesPerNode && backlog > a.portion(of) && (of == nil || of.queued.Load() > a.clientPortion())
}

func (a *admission) connect() bool {
	if a.connections.Add(1) > int64(a.limits.ConnectionsMax) {
		a.connections.Add(-1)
		return false
	}
	return true
}

func (a *admission) disconnect() { a.connections.Add(-1) }

// Beyond so many connections those that begin are told to send heartbeats less often, at
// most heartbeatSlowest times as rarely: ten thousand that do nothing else would take more
// of the node than its work.
const (
	heartbeatsPerSecond = 1_000
	heartbeatSlowest    = 5
)

// heartbeatMs is between two heartbeats of a session that begins now, on both sides.
func (a *admission) heartbeatMs() int64 {
	ms := a.limits.HeartbeatMs
	return max(ms, min(a.connections.Load()*1000/heartbeatsPerSecond, heartbeatSlowest*ms))
}

// enter admits one call, or says whose fill it is. A node without any call admits one
// of any size.
func (a *admission) enter(s *client, bytes int64, write bool) *messages.Error {
	mine := s.calls.Add(1)
	if mine == 1 {
		a.active.Add(1)
	}
	mineBytes := s.bytes.Add(bytes)
	calls, total := a.calls.Add(1), a.bytes.Add(bytes)
	var err *messages.Error
	switch {
	case calls == 1:
	case calls > a.limits.CallsPerNode:
		err = overloaded("the node has its fill of calls", a.limits.CallsPerNode)
	case total > a.limits.BytesPerNode:
		err = overloaded("the node has its fill of bytes in flight", a.limits.BytesPerNode)
	case mine > a.fair(a.limits.CallsPerNode):
		err = overloaded("this client has its share of the node's calls", a.fair(a.limits.CallsPerNode))
	case mine > 1 && mineBytes > a.fair(a.limits.BytesPerNode):
		err = overloaded("this client has its share of the node's bytes in flight", a.fair(a.limits.BytesPerNode))
	case write && s.writes.Load() >= a.fair(a.limits.WritesPerNode):
		err = overloaded("this client has its share of the writes that may wait", a.fair(a.limits.WritesPerNode))
	}
	if err != nil {
		a.leave(s, 1, bytes)
		return err
	}
	if write {
		s.writes.Add(1)
	}
	return nil
}

// fair is what one client may hold of a limit now.
func (a *admission) fair(limit int64) int64 {
	return max(1, limit*3/(4*max(1, a.active.Load())))
}

func (a *admission) leave(s *client, calls, bytes int64) {
	if calls == 0 && bytes == 0 {
		return
	}
	if s.calls.Add(-calls) == 0 && calls > 0 {
		a.active.Add(-1)
	}
	s.bytes.Add(-bytes)
	a.calls.Add(-calls)
	a.bytes.Add(-bytes)
}
