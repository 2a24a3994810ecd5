package sim

import (
	"context"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// Client is one process that uses the SDK.
type Client struct {
	world  *World
	name   string
	clock  clientClock
	c      *client.Client
	paused bool
	closed bool
	// crashed: paused for good.
	crashed bool

	watches []*watched
	holders []*holder
	working sync.WaitGroup // goroutines of the workload in this client
	leases  map[string]uint64
}

// holder is a lease that the SDK's session keeps alive.
type holder struct {
	name   string
	mu     sync.Mutex
	s      *session.Session
	err    error
	cancel context.CancelFunc
}

func (h *holder) session() *session.Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.s
}

// open starts a client that knows all nodes, or those named.
func (w *World) open(name string, endpoints []string) *Client {
	c := &Client{world: w, name: name, leases: map[string]uint64{}}
	c.clock.hand, c.clock.calls = hand{world: w, rate: 1}, w.opts.Turns
	if w.opts.Turns { // clocks of machines have nothing to do with each other
		c.clock.hand.local = time.Duration(mix(w.opts.Seed, uint64(len(w.clients)))%10_000) * time.Second
	}
	var dialer transport.Dialer = codecDialer{&w.network, name}
	if w.opts.GRPC {
		dialer = w.network.grpcDialer(name)
	}
	number := uint64(len(w.clients) + 1)
	prefer := client.AnyNode
	if mix(w.opts.Seed, number)%4 == 0 {
		prefer = client.LeaderNode
	}
	made, err := client.New(client.Config{
		Endpoints: endpoints, Dialer: dialer, Name: name, Clock: &c.clock, SessionTTL: 10 * time.Second, Prefer: prefer,
		// The same number for whoever draws in one step: which goroutine is first must
		// not matter.
		Random: func() uint64 { return mix(w.opts.Seed+number, uint64(w.steps)) },
	})
	if err != nil {
		panic(fmt.Sprintf("sim: client %s: %v", name, err))
	}
	c.c = made
	w.clients = append(w.clients, c)
	synctest.Wait()
	return c
}

// heard notes that something came for the client's watches.
func (c *Client) heard() {
	for _, x := range c.watches {
		x.mayHave = true
	}
}

// start sends an operation; what becomes of it is collected later.
func (c *Client) start(op *Op, request *messages.Operation, timeout time.Duration) {
	w := c.world
	op.client, op.called, op.sentAt = c.name, w.steps, w.now
	w.history.add(op)
	err := c.c.Start(request, timeout, func(r *messages.Reply, err error) {
		w.history.done(op, r, err)
	})
	if err != nil {
		w.history.done(op, nil, err)
	}
	w.logIdle = false
	synctest.Wait()
	w.collectResults()
}

// write and query wrap operations.
func write(m *messages.Write) *messages.Operation {
	return &messages.Operation{Operation: &messages.Operation_Write{Write: m}}
}

func query(m *messages.Query) *messages.Operation {
	return &messages.Operation{Operation: &messages.Operation_Query{Query: m}}
}

// watch begins a watch.
func (c *Client) watch(name string, s *messages.Selector, from uint64, opts client.WatchOptions) *watched {
	x := &watched{name: name, client: c, from: from, opening: true}
	x.lo, x.hi = store.Bounds(s)
	c.watches = append(c.watches, x)
	opts.From, opts.Progress = from, true
	w := c.world
	c.working.Go(func() {
		watcher, err := c.c.Watch(context.Background(), s, opts)
		w.history.later(c.name+"/"+name, func() {
			x.opening = false
			if err != nil {
				w.trace("watch %s refused %v", name, messages.CodeOf(err))
				x.end = err
				x.lines = append(x.lines, "refused "+messages.CodeName(messages.CodeOf(err)))
				return
			}
			w.trace("watch %s begins at %d", name, watcher.Start().FromRevision)
			x.started(watcher)
		})
	})
	synctest.Wait()
	return x
}

// hold opens a session and keeps it.
func (c *Client) hold(name string, ttl time.Duration) *holder {
	ctx, cancel := context.WithCancel(context.Background())
	h := &holder{name: name, cancel: cancel}
	c.holders = append(c.holders, h)
	w := c.world
	c.working.Go(func() {
		s, err := session.OpenWith(ctx, gate{c, name}, c.c.Keepalives(), session.Options{TTL: ttl, Subject: name})
		h.mu.Lock()
		h.s, h.err = s, err
		h.mu.Unlock()
		w.history.later(c.name+"/"+name, func() {
			w.trace("hold %s %v", name, messages.CodeOf(err))
			if err == nil {
				c.leases[name] = s.LeaseID()
			}
		})
	})
	synctest.Wait()
	return h
}

// gate is what a session asks of its client. Grants that are answered in one step go on
// one by one: the timers that their sessions set must not depend on goroutines.
type gate struct {
	*Client
	name string
}

// Grant implements session.Store.
func (g gate) Grant(ctx context.Context, ttl time.Duration, opts client.GrantOptions) (client.Granted, error) {
	r, err := g.c.Grant(ctx, ttl, opts)
	g.clock.Step("hold " + g.name)
	return r, err
}

// KeepAlive implements session.Store.
func (g gate) KeepAlive(ctx context.Context, id uint64, ttl time.Duration) (client.Renewed, error) {
	return g.c.KeepAlive(ctx, id, ttl)
}

// Revoke implements session.Store.
func (g gate) Revoke(ctx context.Context, id uint64) (uint64, error) { return g.c.Revoke(ctx, id) }

// Clock implements session.Store.
func (g gate) Clock() client.Clock { return &g.clock }

// drop gives a held session up.
func (c *Client) drop(h *holder) {
	h.cancel()
	s := h.session()
	if s == nil {
		return
	}
	w := c.world
	c.working.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		err := s.Close(ctx)
		w.history.later(c.name+"/"+h.name, func() { w.trace("drop %s %v", h.name, messages.CodeOf(err)) })
	})
	synctest.Wait()
}

// close ends the client; the world goes on until it has ended.
func (c *Client) close() {
	if c.closed {
		return
	}
	w := c.world
	w.recipes.stop(func(t *tour) bool { return t.client == c })
	for _, h := range c.holders {
		h.cancel()
		if s := h.session(); s != nil {
			s.Abandon()
		}
		synctest.Wait() // what one sets off must not race with the next
	}
	for _, x := range c.watches {
		if x.w != nil {
			x.w.Close()
		}
		synctest.Wait()
	}
	done := make(chan struct{})
	go func() {
		_ = c.c.Close()
		c.working.Wait()
		close(done)
	}()
	c.paused = false
	for range 20_000 {
		synctest.Wait()
		select {
		case <-done:
			c.closed = true
			w.network.resetClient(c.name)
			synctest.Wait()
			w.collectResults()
			return
		default:
		}
		if !w.Step() {
			w.tick(w.opts.Tick)
		}
	}
	w.stuck = true
	w.failf("I8", "client %s does not close", c.name)
}

func (n *network) resetClient(name string) {
	n.each(func(c *conn) {
		if c.client == name && !c.atNode {
			c.reset()
		}
	})
}
