package apply

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

// Telemetry hears of what was applied. It must not block, and must not change the
// effects, which others read.
type Telemetry interface {
	// Applying: a batch of the log is taken up; the log waits for it until Answered.
	Applying()
	Answered()
	// Applied: so many entries, with these effects; the state is now as gauges say.
	Applied(entries int, effects *state.Effects, gauges Gauges)
	// Installed: the state was replaced by a snapshot's.
	Installed(gauges Gauges)
	// Configured: the replicated configuration is now this one, which never changes
	// again. It is told before the command that set it is answered, so that whoever
	// got the answer is judged by what it set.
	Configured(clusterID []byte, incarnation uint64, config *messages.ClusterConfig)
	// Authorized: who may do what is now this table, which never changes. It is told
	// before the command that changed it is answered, and before any event after it.
	Authorized(t *auth.Table)
}

// Gauges are the state in numbers.
type Gauges struct {
	state.Stats
	Revision, CompactRevision uint64
	ClockMs                   int64
	ApplyVersion              uint32 // of the rules that the log has settled on
	// Digests are the state's at agreed places of the log that the batch has passed.
	Digests []Digest
}

// Digest is the state's digest when index had just been applied.
type Digest struct{ Index, Digest uint64 }

// Config is what apply needs. Initial and ApplyVersion are optional.
type Config struct {
	Replica, Expiry, Watch *actor.PID
	Telemetry              Telemetry
	// Initial is the state before the first entry of the log; nil for an empty one. It
	// is the same on each of a cluster's first members.
	Initial *state.Machine
	// ApplyVersion is the highest version of the rules that an empty state knows; 0 is
	// messages.ApplyVersion.
	ApplyVersion uint32
}

// Props returns the actor's props. The node adds its fail-stop middleware.
func Props(cfg Config) *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor {
		a := &Actor{cfg: cfg}
		a.core = newCore(a, cfg.Telemetry)
		if cfg.ApplyVersion != 0 {
			a.core.machine = state.NewAt(cfg.ApplyVersion)
		}
		return a
	})
}

// sweepNotice is from the actor to itself.
type sweepNotice struct{}

// Actor is the shell around the core.
type Actor struct {
	cfg      Config
	core     *core
	ctx      actor.Context // of the message being received
	sweeping bool          // a sweepNotice is in the mailbox
}

// Receive implements actor.Actor.
func (a *Actor) Receive(ctx actor.Context) {
	a.ctx = ctx
	switch m := ctx.Message().(type) {
	case *batch:
		a.onBatch(m)
	case *state.GetView:
		a.core.getView(ctx.Sender(), m)
	case *messages.DueLeases:
		ctx.Respond(a.core.due(m))
	case *messages.AskClockOwner:
		ctx.Respond(a.core.clockOwner())
	case *freeze:
		m.done <- a.core.machine.View()
	case *install:
		a.core.install(m.machine)
		m.done <- struct{}{}
	case *sweepNotice:
		a.sweeping = false
		a.core.sweep()
	case *actor.Started:
		if a.cfg.Initial != nil {
			a.core.install(a.cfg.Initial)
		}
	case *actor.Stopping, *actor.Stopped, *actor.Restarting, *actor.DeadLetterResponse:
	default:
		panic(fmt.Sprintf("apply: unexpected message %T", m))
	}
}

// onBatch lets the log go on before the rest is done.
func (a *Actor) onBatch(m *batch) {
	a.cfg.Telemetry.Applying()
	a.core.apply(m.entries)
	entries := len(m.entries) // the log's again once it is told
	a.cfg.Telemetry.Answered()
	m.done <- struct{}{}
	a.core.after(entries)
}

func (a *Actor) view(to any, m *state.GotView) {
	if pid, _ := to.(*actor.PID); pid != nil {
		a.ctx.Send(pid, m)
	}
}

func (a *Actor) committed(m *state.Committed)      { a.ctx.Send(a.cfg.Watch, m) }
func (a *Actor) installed(m *state.Installed)      { a.ctx.Send(a.cfg.Watch, m) }
func (a *Actor) clockOwner(m *messages.ClockOwner) { a.ctx.Send(a.cfg.Replica, m) }
func (a *Actor) earliestDeadline(m *messages.EarliestDeadline) {
	a.ctx.Send(a.cfg.Expiry, m)
}

func (a *Actor) sweepSoon() {
	if !a.sweeping {
		a.sweeping = true
		a.ctx.Send(a.ctx.Self(), &sweepNotice{})
	}
}
