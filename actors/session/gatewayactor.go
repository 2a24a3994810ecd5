package session

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

// gateway is the actor: the parent of the sessions.
type gateway struct {
	g        *Gateway
	children map[string]*connection // by the id of their pid
	toldMs   int64
	closing  bool
}

// Receive implements actor.Actor.
func (a *gateway) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *connected:
		a.onConnected(ctx, m.conn)
	case *actor.Terminated:
		a.onTerminated(ctx, m)
	case *messages.ClockTick:
		a.onTick(ctx, m)
	case *messages.LeaderChanged:
		a.tellAll(ctx, m)
	case *closeGateway:
		a.closing = true
		a.tellAll(ctx, &drainNow{})
		a.stopIfEmpty(ctx)
	case *abortGateway:
		a.closing = true
		a.tellAll(ctx, &abortNow{stopping()})
		a.stopIfEmpty(ctx)
	case *actor.DeadLetterResponse, *actor.Started, *actor.Restarting:
	case *actor.Stopping:
		a.closing = true
	case *actor.Stopped:
		close(a.g.stopped)
	default:
		panic(fmt.Sprintf("gateway: unexpected message %T", m))
	}
}

func (a *gateway) onConnected(ctx actor.Context, c *connection) {
	if a.closing {
		c.stream.Close(stopping().Detail) // the session finds it ended, and ends
	}
	root, cfg := a.g.system.Root, a.g.cfg
	c.outbox = newOutbox(c.stream,
		func(window int64) { root.Send(c.pid, &wrote{window}) },
		func() {
			root.Send(c.pid, &writerDone{})
			close(c.written)
		})
	c.outbox.counts = a.g.admission
	c.pid = ctx.Spawn(actor.PropsFromProducer(func() actor.Actor {
		return newSession(cfg, a.g.admission, c)
	}, cfg.SessionProps...))
	a.children[c.pid.Id] = c
	go c.outbox.run()
	close(c.attached)
}

// onTerminated: whatever the session died of, nothing is left of it.
func (a *gateway) onTerminated(ctx actor.Context, m *actor.Terminated) {
	c := a.children[m.GetWho().GetId()]
	if c == nil {
		return // told twice
	}
	delete(a.children, m.Who.Id)
	ctx.Send(a.g.cfg.Watch, &protocol.SessionClosed{Session: c.id})
	close(c.done)
	a.stopIfEmpty(ctx)
}

func (a *gateway) onTick(ctx actor.Context, m *messages.ClockTick) {
	if m.GetMonotonicMs()-a.toldMs < tickMs {
		return
	}
	a.toldMs = m.GetMonotonicMs()
	a.g.admission.tick()
	if used := a.g.cfg.ProcessorTime; used != nil {
		a.g.admission.heavy.measure(m.GetMonotonicMs(), used())
	}
	a.tellAll(ctx, m)
}

func (a *gateway) tellAll(ctx actor.Context, m any) {
	for _, c := range ctx.Children() {
		ctx.Send(c, m)
	}
}

func (a *gateway) stopIfEmpty(ctx actor.Context) {
	if a.closing && len(a.children) == 0 {
		ctx.Stop(ctx.Self())
	}
}
