package replica

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// Clock is the node's monotonic clock. Stamps of the lease clock are taken from
// it.
type Clock interface {
	// MonotonicMs never goes back and has nothing to do with the time of day.
	MonotonicMs() int64
}

// Telemetry counts what a replica does. Its methods must not block.
type Telemetry interface {
	// Committed: an entry of this many commands and bytes was applied, tookMs
	// after it was sent.
	Committed(commands, bytes int, tookMs int64)
	// Refused: this many commands were not admitted.
	Refused(code messages.Code, commands int)
}

// Config is what a replica needs. All fields but Limits are required.
type Config struct {
	Log    consensus.Log
	Clock  Clock
	Limits Limits
	// Nonce returns a number that no earlier call, in any process, has returned.
	Nonce     func() uint64
	Telemetry Telemetry
	// Apply and Expiry are the node's.
	Apply, Expiry *actor.PID
	// Subscribers are told who leads.
	Subscribers []*actor.PID
	// Peers passes on what comes in while another node leads. nil: it is refused.
	Peers Peers
}

// Notices from the log's goroutines, and from the actor to itself.
type (
	leaderNotice  struct{ leaderID, term uint64 }
	barrierNotice struct {
		attempt uint64
		err     error
	}
	entryNotice struct {
		entry   uint64
		results []*messages.Result
		err     error
	}
	flushNotice struct{}
	// relayNotice is an answer of the leader's node.
	relayNotice struct {
		ticket  uint64
		first   uint32
		results []*messages.Result
		failure *messages.ErrorDetail // instead of results
	}
)

var flush = &flushNotice{}

// Props returns the actor's props. The node adds its fail-stop middleware.
func Props(cfg Config) *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor { return &Actor{cfg: cfg} })
}

// Actor is the shell around the core: it carries out what the core decides.
type Actor struct {
	cfg  Config
	core *core
	ctx  actor.Context // of the message being received
	root *actor.RootContext
	self *actor.PID

	flushing bool         // a flushNotice is in the mailbox
	polled   leaderNotice // what the log said at the last tick
}

// Receive implements actor.Actor.
func (a *Actor) Receive(ctx actor.Context) {
	a.ctx = ctx
	switch m := ctx.Message().(type) {
	case *messages.Propose:
		a.core.propose(ctx.Sender(), m)
	case *FromPeer:
		if len(m.Propose.GetCommands()) > 0 {
			a.core.take(m.Reply, m.Propose)
		}
	case *relayNotice:
		if m.failure != nil {
			a.core.relayFailed(m.ticket, m.failure)
		} else {
			a.core.relayed(m.ticket, m.first, m.results)
		}
	case *messages.ReadBarrier:
		a.core.readBarrier(ctx.Sender(), m)
	case *messages.ClockTick:
		a.onTick()
	case *messages.ClockOwner:
		a.core.clockOwner(m)
	case *entryNotice:
		a.core.entryDone(m.entry, m.results, m.err)
	case *barrierNotice:
		a.core.barrierDone(m.attempt, m.err)
	case *leaderNotice:
		a.core.leaderSeen(m.leaderID, m.term)
	case *flushNotice:
		a.flushing = false
		a.core.flush()
	case *actor.Started:
		a.onStarted()
	case *actor.Stopping:
		a.core.stop()
	case *actor.Stopped, *actor.Restarting, *actor.DeadLetterResponse:
	default:
		panic(fmt.Sprintf("replica: unexpected message %T", m))
	}
}

func (a *Actor) onStarted() {
	a.self, a.root = a.ctx.Self(), a.ctx.ActorSystem().Root
	s := a.cfg.Log.Status()
	a.core = newCore(s.ReplicaID, a.cfg.Limits, a.cfg.Clock.MonotonicMs, a.cfg.Nonce, a, a.cfg.Telemetry)
	if a.cfg.Peers != nil {
		a.core.relays.port = a
	}
	a.askClockOwner()
	a.core.leaderSeen(s.LeaderID, s.Term)
}

// onTick looks at the log as well: a change of leader that was announced before
// this actor was there to hear it must not go unseen. What the log says counts once
// it has said so for a tick: an announcement that is still in the mailbox would
// otherwise take it back.
func (a *Actor) onTick() {
	s := a.cfg.Log.Status()
	seen := leaderNotice{leaderID: s.LeaderID, term: s.Term}
	if seen == a.polled {
		a.core.leaderSeen(s.LeaderID, s.Term)
	}
	a.polled = seen
	a.core.tick()
}

func (a *Actor) propose(entry uint64, payload []byte) {
	root, self := a.root, a.self
	a.cfg.Log.Propose(payload, time.Duration(a.core.limits.EntryTimeoutMs)*time.Millisecond,
		func(results []*messages.Result, err error) {
			root.Send(self, &entryNotice{entry: entry, results: results, err: err})
		})
}

func (a *Actor) readIndex(attempt uint64) {
	root, self := a.root, a.self
	a.cfg.Log.ReadIndex(time.Duration(a.core.limits.BarrierTimeoutMs)*time.Millisecond, func(err error) {
		root.Send(self, &barrierNotice{attempt: attempt, err: err})
	})
}

// flushSoon puts a notice behind the messages that are in the mailbox now, so that
// all of them share an entry.
func (a *Actor) flushSoon() {
	if !a.flushing {
		a.flushing = true
		a.root.Send(a.self, flush)
	}
}

func (a *Actor) askClockOwner() { a.ctx.Request(a.cfg.Apply, &messages.AskClockOwner{}) }

func (a *Actor) relay(ticket, replicaID uint64, m *messages.Propose) error {
	root, self := a.root, a.self
	return a.cfg.Peers.Forward(replicaID, m,
		func(first uint32, results []*messages.Result) {
			root.Send(self, &relayNotice{ticket: ticket, first: first, results: results})
		},
		func(failure *messages.ErrorDetail) {
			root.Send(self, &relayNotice{ticket: ticket, failure: failure})
		})
}

func (a *Actor) proposed(to any, m *messages.Proposed) {
	if peer, ok := to.(func(*messages.Proposed)); ok {
		peer(m)
		return
	}
	a.reply(to, m)
}

func (a *Actor) reached(to any, m *messages.BarrierReached) { a.reply(to, m) }

func (a *Actor) reply(to any, m any) {
	if pid, _ := to.(*actor.PID); pid != nil {
		a.ctx.Send(pid, m)
	}
}

func (a *Actor) clockOwned(m *messages.ClockOwned) { a.ctx.Send(a.cfg.Expiry, m) }

func (a *Actor) leaderChanged(m *messages.LeaderChanged) {
	for _, pid := range a.cfg.Subscribers {
		a.ctx.Send(pid, m)
	}
}

// Listener tells a replica what its log says about leadership. It only enqueues.
type Listener struct {
	System *actor.ActorSystem
	PID    *actor.PID
}

// LeaderChanged implements consensus.Listener.
func (l Listener) LeaderChanged(leaderID, term uint64) {
	l.System.Root.Send(l.PID, &leaderNotice{leaderID: leaderID, term: term})
}
