package session

import (
	"context"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// Gateway is where connections come in. It may be used from any goroutine.
type Gateway struct {
	system    *actor.ActorSystem
	cfg       *Config
	admission *admission
	pid       *actor.PID
	lastID    atomic.Uint64
	stopped   chan struct{}
}

// NewGateway spawns the gateway's actor, named "gateway". Close stops it.
func NewGateway(system *actor.ActorSystem, cfg Config) (*Gateway, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	cfg.passwords = newPasswords()
	g := &Gateway{system: system, cfg: &cfg, admission: newAdmission(cfg.Limits), stopped: make(chan struct{})}
	props := actor.PropsFromProducer(func() actor.Actor {
		return &gateway{g: g, children: make(map[string]*connection), toldMs: -tickMs}
	}, append([]actor.PropsOption{actor.WithSupervisor(stopNeverRestart)}, cfg.GatewayProps...)...)
	if g.pid, err = system.Root.SpawnNamed(props, "gateway"); err != nil {
		return nil, err
	}
	return g, nil
}

// A session that failed has lost what it knew of its calls: another one in its
// place would answer wrongly.
var stopNeverRestart = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// PID is where the node sends ClockTick and LeaderChanged.
func (g *Gateway) PID() *actor.PID { return g.pid }

// Connections returns how many are open.
func (g *Gateway) Connections() int { return int(g.admission.connections.Load()) }

// Serve is the node's transport.Handler: it serves one connection until it ends.
// Its goroutine reads the stream.
func (g *Gateway) Serve(stream transport.ServerStream) {
	if !g.admission.connect() {
		g.cfg.Telemetry.Closed(messages.Code_CODE_OVERLOADED)
		stream.Close(overloaded("the node has its fill of connections", int64(g.cfg.Limits.ConnectionsMax)).Detail)
		return
	}
	g.cfg.Telemetry.Connections(g.Connections())
	defer func() {
		g.admission.disconnect()
		g.cfg.Telemetry.Connections(g.Connections())
	}()
	c := &connection{
		id: g.lastID.Add(1), stream: stream,
		tokens:   make(chan struct{}, frameReadAhead),
		attached: make(chan struct{}), done: make(chan struct{}), written: make(chan struct{}),
	}
	g.system.Root.Send(g.pid, &connected{c})
	select {
	case <-c.attached:
	case <-g.stopped:
		stream.Close(stopping().Detail)
		return
	}
	g.read(c)
	<-c.done
	<-c.written
}

// read passes the client's messages on until the stream ends or its session stops.
func (g *Gateway) read(c *connection) {
	for c.pass() {
		m, err := c.stream.Recv()
		if err != nil {
			g.system.Root.Send(c.pid, &streamGone{})
			return
		}
		c.received.Add(1)
		select {
		case c.tokens <- struct{}{}:
		default:
			c.waits.Store(true)
			select {
			case c.tokens <- struct{}{}:
			case <-c.done:
				return
			}
			c.waits.Store(false)
		}
		g.system.Root.Send(c.pid, &inbound{m})
	}
}

// Close ends every connection and stops the actor. Calls in flight are answered
// first, new ones refused with node_stopping; watches end with it and the place to
// resume from. Once ctx is done, what is left is cut off. Connections that come
// later are refused.
func (g *Gateway) Close(ctx context.Context) error {
	g.system.Root.Send(g.pid, &closeGateway{})
	select {
	case <-g.stopped:
		return nil
	case <-ctx.Done():
	}
	g.system.Root.Send(g.pid, &abortGateway{})
	<-g.stopped
	return ctx.Err()
}

type (
	connected    struct{ conn *connection }
	closeGateway struct{}
	abortGateway struct{}
)
