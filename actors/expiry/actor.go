package expiry

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/messages"
)

// Telemetry counts what expiry does. Its methods must not block.
type Telemetry interface {
	// Expired: of so many leases that were due, so many were ended and so many
	// skipped because they had changed meanwhile; keys went with them.
	Expired(due, expired, skipped int, keys uint64)
}

// Config is what expiry needs. PIDs and Telemetry are required.
type Config struct {
	Replica, Apply *actor.PID
	Telemetry      Telemetry
	// TickMs is the longest time between two looks, and between two Ticks in the
	// log. Default: 1,000.
	TickMs int64
	// WakeMs is the shortest time between two looks. Default: 20.
	WakeMs int64
	// LeasesPerSecond bounds how fast leases are ended: when very many are due at once,
	// clients' writes need the log and the processors too. Default: 60,000.
	LeasesPerSecond int64
}

// Defaults of Config.
const (
	TickMsDefault = 1_000
	WakeMsDefault = 20

	LeasesPerSecondDefault = 60_000
)

// Props returns the actor's props. The node adds its fail-stop middleware.
func Props(cfg Config) *actor.Props {
	if cfg.TickMs == 0 {
		cfg.TickMs = TickMsDefault
	}
	if cfg.WakeMs == 0 {
		cfg.WakeMs = WakeMsDefault
	}
	if cfg.LeasesPerSecond == 0 {
		cfg.LeasesPerSecond = LeasesPerSecondDefault
	}
	return actor.PropsFromProducer(func() actor.Actor {
		a := &Actor{cfg: cfg}
		a.core = newCore(cfg.TickMs, cfg.WakeMs, cfg.LeasesPerSecond, a, cfg.Telemetry)
		return a
	})
}

// Actor is the shell around the core.
type Actor struct {
	cfg  Config
	core *core
	ctx  actor.Context // of the message being received
}

// Receive implements actor.Actor.
func (a *Actor) Receive(ctx actor.Context) {
	a.ctx = ctx
	switch m := ctx.Message().(type) {
	case *messages.ClockTick:
		a.core.tick(m.GetMonotonicMs())
	case *messages.ClockOwned:
		a.core.clockOwned(m)
	case *messages.DueLeasesReply:
		a.core.due(m)
	case *messages.EarliestDeadline:
		a.core.earliest(m)
	case *messages.Proposed:
		a.core.proposed(m)
	case *messages.LeaderChanged:
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting, *actor.DeadLetterResponse:
	default:
		panic(fmt.Sprintf("expiry: unexpected message %T", m))
	}
}

func (a *Actor) askDue(m *messages.DueLeases) { a.ctx.Request(a.cfg.Apply, m) }
func (a *Actor) propose(m *messages.Propose)  { a.ctx.Request(a.cfg.Replica, m) }
