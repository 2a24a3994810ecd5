package sim

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/cluster/peers"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/store"
)

// Node is one member: the production node over a simulated log, clock and network.
// What survives a crash is the log's disk, inside memlog.
type Node struct {
	world *World
	id    uint64
	clock nodeClock
	boots int

	up, paused bool

	// Of this boot.
	board  *board
	node   *node.Node
	log    *nodeLog
	apply  *mailbox
	system *actor.ActorSystem
	// In gRPC mode.
	listener *listener
	server   *transport.GRPCServer
	probe    probe
	random   uint64
	// acceptPeer serves a link of another node; nil before the node has links.
	acceptPeer func(context.Context, peers.Stream) error
	joined     bool // added to a running cluster
	removed    bool // for good

	view   *state.View   // after the last batch
	events []store.Event // of the last batch
}

func endpoint(id uint64) string { return "n" + strconv.FormatUint(id, 10) }

func nodeOf(endpoint string) uint64 {
	id, _ := strconv.ParseUint(strings.TrimPrefix(endpoint, "n"), 10, 64)
	return id
}

// addNode makes a node that is down.
func (w *World) addNode(id uint64) *Node {
	n := &Node{world: w, id: id}
	n.clock.hand = hand{world: w, rate: 1, local: time.Duration(mix(w.opts.Seed, id-1)%1000) * time.Second}
	w.nodes = append(w.nodes, n)
	return n
}

// probe is a process in a node's actor system that the world asks in the name of.
type probe struct{ view *state.View }

// SendUserMessage implements actor.Process.
func (p *probe) SendUserMessage(_ *actor.PID, message any) {
	if m, ok := actor.UnwrapEnvelopeMessage(message).(*state.GotView); ok {
		p.view = m.View
	}
}

// SendSystemMessage implements actor.Process.
func (p *probe) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (p *probe) Stop(*actor.PID) {}

// start boots the node. One that cannot, because its snapshot is damaged, stays down.
func (n *Node) start() {
	if n.up || n.removed {
		return
	}
	w := n.world
	defer func() {
		if r := recover(); r != nil {
			n.up, w.logDead = false, true
			w.failf("panic", "n%d does not start: %v\n%s", n.id, r, debug.Stack())
		}
	}()
	n.boots++
	n.up, n.paused, n.view, n.events = true, false, nil, nil
	n.clock.reset()
	n.acceptPeer = nil
	b := &board{}
	id := n.id
	b.handled = func(who string, m any) {
		if b == n.board {
			w.traceMessage(id, who, actor.UnwrapEnvelopeMessage(m))
		}
	}
	b.posted = func(who string, m any) {
		if c, ok := actor.UnwrapEnvelopeMessage(m).(*state.Committed); ok && b == n.board {
			n.events = append(n.events, c.Effects.Events...)
		}
	}
	n.board, n.log, n.probe = b, newNodeLog(n), probe{}
	endpoints := map[uint64]string{}
	var members []*messages.MemberAddress
	for _, o := range w.nodes {
		endpoints[o.id] = endpoint(o.id)
		members = append(members, o.address())
	}
	started, err := node.Start(node.Config{
		ReplicaID: n.id, Clock: &n.clock, Endpoints: endpoints, Bootstrap: w.opts.Config,
		RaftAddress: n.address().Raft, PeerListenAddress: n.address().Peer, Members: members,
		ClockInterval: w.opts.Tick, StartTimeout: -1, CloseTimeout: 50 * time.Millisecond,
		Fail:  func(reason any, stack []byte) { w.failf("fail-stop", "n%d: %v\n%s", id, reason, stack) },
		Seams: &node.Seams{OpenLog: n.openLog, Props: n.props, Random: n.nextRandom, Peers: n.peerTransport()},
	})
	if err != nil {
		panic(fmt.Sprintf("sim: n%d does not start: %v", n.id, err))
	}
	n.node = started
	synctest.Wait() // its links dial
	if w.opts.GRPC {
		n.serveGRPC()
	}
}

func (n *Node) openLog(a consensus.Applier, l consensus.Listener) (consensus.Log, error) {
	start := n.world.log.Start
	if n.joined && n.boots == 1 {
		start = n.world.log.Join
	}
	n.log.Log = start(n.id, nodeApplier{a, n}, l)
	n.log.publish()
	return n.log, nil
}

func (n *Node) props(system *actor.ActorSystem, name string) []actor.PropsOption {
	if n.system != system {
		n.system = system
		system.ProcessRegistry.Add(&n.probe, "probe")
	}
	if name != "apply" {
		return n.board.props(name)
	}
	return []actor.PropsOption{actor.WithMailbox(func() actor.Mailbox {
		n.apply = n.board.add(name)
		return n.apply
	})}
}

// nextRandom never returns the same twice in a world.
func (n *Node) nextRandom() uint64 {
	n.random++
	return mix(n.world.opts.Seed, n.id<<32|uint64(n.boots)<<16|n.random)
}

// inline lets the apply actor handle what f sends it before f's send returns.
func (n *Node) inline(f func()) {
	n.apply.inline = true
	f()
	n.apply.inline = false
}

// look returns the state as the apply actor shows it.
func (n *Node) look() *state.View {
	n.probe.view = nil
	n.inline(func() {
		n.system.Root.RequestWithCustomSender(n.system.NewLocalPID("apply"), &state.GetView{}, n.system.NewLocalPID("probe"))
	})
	return n.probe.view
}

// runs says whether the node may do something now.
func (n *Node) runs() bool { return n.up && !n.paused }

// afterStep opens the node for clients once its log is ready.
func (n *Node) afterStep() {
	if n.up {
		n.log.publish()
	}
	if r := n.world.log.Replica(n.id); n.up && r != nil && r.WaitReady(context.Background()) == nil {
		n.log.readyOnce.Do(func() {
			close(n.log.ready)
			synctest.Wait()
		})
	}
}

// isReady says whether the node serves clients.
func (n *Node) isReady() bool {
	select {
	case <-n.node.Ready():
		return true
	default:
		return false
	}
}
