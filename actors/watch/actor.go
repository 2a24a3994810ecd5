package watch

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// Telemetry counts what the hub does. Its methods must not block.
type Telemetry interface {
	// Watches: so many live.
	Watches(live int)
	// Delivered: batches and the events in them went to sessions.
	Delivered(batches, events int)
	// WatchEnded: a watch ended with this code.
	WatchEnded(code messages.Code)
	// Backlog: so many watches are fed from the change log, so many have no credit for
	// what there is for them, and the last of them is so many revisions behind. Told
	// once a second.
	Backlog(behind, stalled int, lag uint64)
}

// Config is what the hub needs. Apply is required.
type Config struct {
	Apply *actor.PID
	// Consumers is told how far every watch of this node has come, at most once a
	// second. nil: nobody is.
	Consumers *actor.PID
	Limits    Limits
	Telemetry Telemetry // nil: none
}

// Props returns the actor's props. The node adds its fail-stop middleware.
func Props(cfg Config) *actor.Props {
	if cfg.Telemetry == nil {
		cfg.Telemetry = noTelemetry{}
	}
	return actor.PropsFromProducer(func() actor.Actor {
		return &Actor{cfg: cfg, hub: NewHub(cfg.Limits), sessions: make(map[uint64]*actor.PID), reportedMs: -consumersMs}
	})
}

// Actor is the shell around the hub.
type Actor struct {
	cfg      Config
	hub      *Hub
	sessions map[uint64]*actor.PID
	applied  uint64 // of the last Committed
	asked    uint64 // number of the last GetView
	asking   bool   // it is unanswered
	stepping bool   // a replayStep is in the mailbox
	watches  int    // as last told

	backlogMs  int64 // when it was last told
	reported   protocol.Consumers
	reportedMs int64
}

// replayStep is the actor -> itself: go on with the replay, after what has come
// meanwhile.
type replayStep struct{}

// Receive implements actor.Actor.
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *state.Committed:
		a.onCommitted(m)
	case *state.Installed:
		a.hub.Installed(m.View)
	case *state.GotView:
		a.onGotView(m)
	case *replayStep:
		a.stepping = false
		a.hub.Replay()
	case *protocol.StartWatch:
		a.sessions[m.Session] = ctx.Sender()
		a.hub.Start(*m)
	case *protocol.GrantCredit:
		a.hub.Grant(m.Session, m.WatchID, m.Events, m.Bytes)
		if m.Progress {
			a.hub.TellProgress(m.Session, m.WatchID)
		}
	case *protocol.Drained:
		a.hub.Drained(m.Session, m.Bytes)
	case *protocol.CancelWatch:
		a.hub.Cancel(m.Session, m.WatchID)
	case *protocol.SessionClosed:
		a.hub.CloseSession(m.Session)
		delete(a.sessions, m.Session)
	case *protocol.ConsumerLag:
		a.hub.ConsumerLag(m.Max)
	case *messages.ClockTick:
		a.hub.Tick(m.GetMonotonicMs())
		a.report(ctx, m.GetMonotonicMs())
	case *messages.LeaderChanged:
		a.hub.LeaderChanged(m.GetLeaderId())
	case *actor.DeadLetterResponse:
		// Apply is not there, yet or any more. Whatever comes next asks again.
		a.asking = false
		return
	case *actor.Started:
		return // apply may not be there yet
	case *actor.Stopping:
		a.hub.Stop(messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node stops: watch at another one"))
	case *actor.Stopped, *actor.Restarting:
		return
	default:
		panic(fmt.Sprintf("watch: unexpected message %T", m))
	}
	a.flush(ctx)
}

func (a *Actor) onCommitted(m *state.Committed) {
	a.applied = m.Applied
	e := m.Effects
	a.hub.Committed(e.Events, e.ToRevision, e.CompactRevision)
	m.Done()
}

func (a *Actor) onGotView(m *state.GotView) {
	if !a.asking || m.RequestID != a.asked {
		return
	}
	a.asking = false
	if m.View != nil {
		a.hub.ViewArrived(m.View)
	}
}

// flush sends what the hub has for the sessions and asks for what it needs.
func (a *Actor) flush(ctx actor.Context) {
	batches, events := 0, 0
	for _, o := range a.hub.TakeOutput() {
		for i := range o.Items {
			switch item := &o.Items[i]; {
			case item.Batch != nil:
				batches += len(item.WatchIDs)
				events += len(item.Batch.Events()) * len(item.WatchIDs)
			case item.End != nil:
				a.cfg.Telemetry.WatchEnded(item.End.GetReason().GetCode())
			}
		}
		ctx.Send(a.sessions[o.Session], &protocol.Deliver{Items: o.Items})
	}
	if batches > 0 {
		a.cfg.Telemetry.Delivered(batches, events)
	}
	if n := a.hub.Watchers(); n != a.watches {
		a.watches = n
		a.cfg.Telemetry.Watches(n)
	}
	if a.hub.NeedsView() && !a.asking {
		a.asking = true
		a.asked++
		ctx.Request(a.cfg.Apply, &state.GetView{RequestID: a.asked, MinApplied: a.applied})
	}
	if a.hub.HasReplay() && !a.stepping {
		a.stepping = true
		ctx.Send(ctx.Self(), &replayStep{})
	}
}

// consumersMs is the least time between two reports of consumers.
const consumersMs = 1_000

// backlogMs is how often telemetry is told of the backlog.
const backlogMs = 1_000

func (a *Actor) report(ctx actor.Context, nowMs int64) {
	if nowMs-a.backlogMs >= backlogMs {
		a.backlogMs = nowMs
		a.cfg.Telemetry.Backlog(a.hub.Backlog())
	}
	if a.cfg.Consumers == nil || nowMs-a.reportedMs < consumersMs {
		return
	}
	after, active := a.hub.LowWater()
	now := protocol.Consumers{After: after, Active: active}
	if now == a.reported || !active && !a.reported.Active {
		return
	}
	a.reported, a.reportedMs = now, nowMs
	ctx.Send(a.cfg.Consumers, &now)
}

type noTelemetry struct{}

func (noTelemetry) Watches(int)              {}
func (noTelemetry) Delivered(int, int)       {}
func (noTelemetry) WatchEnded(messages.Code) {}
func (noTelemetry) Backlog(int, int, uint64) {}
