package node

import (
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// root is the node's own actor.
//
// Owns: whether the cluster is bootstrapped, as far as this node has seen, what the
// log was told about this node's watches, and the raising of the apply version.
//
// Receives: messages.LeaderChanged and messages.Proposed from replica,
// state.GotView from apply, protocol.Consumers from watch, messages.ClockTick.
// Sends: messages.Propose to replica, state.GetView to apply, protocol.ConsumerLag to
// watch.
//
// Mailbox: unbounded; one question and three proposals are out at most.
//
// On panic: fail-stop.
type root struct {
	replica, apply, watch *actor.PID
	bootstrap             *messages.Bootstrap
	logger                *slog.Logger
	facts                 *facts
	// ready is closed once the cluster is bootstrapped.
	ready chan<- struct{}

	ctx          actor.Context // of the message being received
	reporter     reporter
	leads        bool
	bootstrapped bool
	nowMs        int64
	asking       bool // a GetView is out
	askedMs      int64
	proposed     uint64 // the Bootstrap that is out; 0 for none
	lagMax       uint64 // as watch was told
	lastID       uint64

	leftovers   leftovers
	leftoversMs int64 // no proposal of them before this

	raiser raiser
}

// The kinds of proposals are told apart by their ids.
const bootstrapIDs = 1 << 63

// Receive implements actor.Actor.
func (r *root) Receive(ctx actor.Context) {
	r.ctx = ctx
	switch m := ctx.Message().(type) {
	case *messages.ClockTick:
		r.nowMs = m.GetMonotonicMs()
		r.look()
		r.reporter.tick(r.nowMs)
	case *messages.LeaderChanged:
		r.onLeaderChanged(m)
	case *state.GotView:
		r.onView(m)
	case *messages.Proposed:
		r.onProposed(m)
	case *protocol.Consumers:
		r.reporter.consumers(m.After, m.Active)
	case *actor.Started:
		r.reporter.propose, r.raiser.propose = r.propose, r.propose
		r.look()
	case *actor.Stopping, *actor.Stopped, *actor.Restarting, *actor.DeadLetterResponse:
	default:
		panic(fmt.Sprintf("node: unexpected message %T", m))
	}
}

func (r *root) onLeaderChanged(m *messages.LeaderChanged) {
	r.leads = m.GetIsLeader()
	r.facts.leader.Store(m)
	r.logger.Info("leader changed", "leader", m.GetLeaderId(), "raft_term", m.GetRaftTerm(), "leads", r.leads)
	r.look()
}

// clusterLookMs is how late the watch hub may learn of another consumer_lag_max.
const clusterLookMs = 1_000

// look asks for the state: all the time until the cluster has begun its life, then
// once in a while.
func (r *root) look() {
	if r.asking || r.proposed != 0 || r.bootstrapped && r.nowMs-r.askedMs < clusterLookMs {
		return
	}
	r.asking, r.askedMs = true, r.nowMs
	r.ctx.Request(r.apply, &state.GetView{})
}

// onView begins the cluster's life if this node leads and nobody has. Two leaders
// may both propose it: one of them is refused.
func (r *root) onView(m *state.GotView) {
	r.asking = false
	if id, _ := m.View.ClusterID(); len(id) > 0 {
		if lag := m.View.Config().GetConsumerLagMax(); lag != r.lagMax {
			r.lagMax = lag
			r.ctx.Send(r.watch, &protocol.ConsumerLag{Max: lag})
		}
		if !r.bootstrapped && r.endLeftovers(m.View) {
			r.bootstrapped = true
			close(r.ready)
		}
		current, _ := m.View.ApplyVersion()
		r.raiser.look(r.leads && r.bootstrapped, current, r.nowMs)
		return
	}
	if !r.leads {
		return
	}
	// A member that has not said what it knows knows the first version.
	r.bootstrap.ApplyVersion = max(messages.ApplyVersionMin, r.raiser.supported())
	r.lastID++
	r.proposed = bootstrapIDs | r.lastID
	r.propose(&messages.Propose{
		RequestId: r.proposed, TimeoutMs: reporterTimeoutMs,
		Commands: []*messages.Command{{Op: &messages.Command_Bootstrap{Bootstrap: r.bootstrap}}},
	})
}

func (r *root) onProposed(m *messages.Proposed) {
	if m.GetRequestId() != r.proposed {
		if !r.raiser.proposed(m, r.nowMs) {
			r.reporter.proposed(m)
		}
		return
	}
	r.proposed = 0
	e := m.GetResults()[0].GetError()
	if e == nil {
		r.logger.Info("cluster bootstrapped", "cluster_id", fmt.Sprintf("%x", r.bootstrap.GetClusterId()))
	} else if e.GetCode() == messages.Code_CODE_INVALID_ARGUMENT {
		r.logger.Error("the cluster cannot be bootstrapped", "error", messages.ErrorFrom(e))
	}
	r.look() // whoever did it: it shows in the state
}

func (r *root) propose(m *messages.Propose) { r.ctx.Request(r.replica, m) }
