package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/actors/apply"
	"github.com/concord-kv/concord/actors/expiry"
	"github.com/concord-kv/concord/actors/replica"
	"github.com/concord-kv/concord/actors/session"
	"github.com/concord-kv/concord/actors/watch"
	"github.com/concord-kv/concord/cluster/remoting"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// pids names the node's actors. They know each other before they are spawned.
type pids struct {
	replica, apply, expiry, watch, root, operator *actor.PID
	spawned                                       map[string]bool
}

// gatewayInterval is how often sessions hear the time.
const gatewayInterval = 100 * time.Millisecond

// open starts everything. After an error the caller shuts down what was started.
func (n *Node) open() error {
	n.cfg.fitFiles(openFilesMax())
	cfg := n.cfg
	n.facts = newFacts(cfg)
	n.fail = newFailStop(cfg.Logger, cfg.Fail)
	// Addresses first: a taken port is found before the log is touched.
	clientListener, err := listen(cfg.ClientAddress)
	if err != nil {
		return err
	}
	if clientListener != nil {
		n.facts.serveAt(clientListener.Addr().String())
	}
	adminListener, err := listen(cfg.AdminAddress)
	if err != nil {
		closeListener(clientListener)
		return err
	}
	peerListener, err := listen(cfg.peerListener())
	if err != nil {
		closeListener(clientListener)
		closeListener(adminListener)
		return err
	}
	etcdListener, err := n.listenEtcd()
	if err != nil {
		closeListener(clientListener)
		closeListener(adminListener)
		closeListener(peerListener)
		return err
	}
	n.links = newLinks(n.facts)
	initial, err := n.takeSeed()
	if err == nil {
		n.meter, err = newTelemetry(n.facts)
	}
	if err == nil {
		err = n.openActors(initial)
	}
	if err != nil {
		closeListener(clientListener)
		closeListener(adminListener)
		closeListener(peerListener)
		closeListener(etcdListener)
		return err
	}
	if cfg.PeerListenAddress != "" {
		n.links.start(cfg, peerListener, n.Addr(), n.etcdURL(etcdListener), n.system, n.pids.replica)
		n.waits.Go(n.watchMembers)
	}
	n.dialer = transport.NewInProcess(n.gateway.Serve)
	if clientListener != nil {
		n.clients = transport.ServeGRPC(clientListener, n.gateway.Serve, transport.ServerOptions{
			TLS: cfg.ClientTLS, Logger: cfg.Logger, ConnectionsMax: cfg.clientConnections(), ConnectionsPerHostMax: cfg.Sessions.ConnectionsPerClient,
			ConnectsMax: cfg.Sessions.ConnectsPerNode, ConnectsPerHostMax: cfg.Sessions.ConnectsPerClient,
		})
	}
	if adminListener != nil {
		n.admin = startAdmin(transport.Bounded(adminListener, adminConnectionsMax), n.meter.registry, n.health, cfg.AdminPprof)
	}
	n.waits.Go(n.awaitReady)
	if err := n.openEtcd(etcdListener); err != nil {
		return err
	}
	return n.openActorListener()
}

// openActorListener serves services that run actors themselves.
func (n *Node) openActorListener() (err error) {
	if n.cfg.Actors == nil {
		return nil
	}
	cfg := *n.cfg.Actors
	if cfg.Logger == nil {
		cfg.Logger = n.cfg.Logger
	}
	if n.services, err = remoting.Listen(cfg, n.gateway.Serve); err != nil {
		return messages.InvalidField("Actors", "%v", err)
	}
	return n.meter.observeServices(n.services)
}

// peers is nil on a node that no other node can reach.
func (n *Node) peers() replica.Peers {
	if n.cfg.PeerListenAddress == "" {
		return nil
	}
	return n.links
}

func closeListener(l net.Listener) {
	if l != nil {
		_ = l.Close() // nothing was accepted on it
	}
}

func (n *Node) openActors(initial *state.Machine) error {
	cfg := n.cfg
	logger := slog.New(quietHandler{cfg.Logger.Handler()})
	n.system = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger }),
		actor.WithDeadLetterThrottleInterval(100*time.Millisecond),
	)
	p := &n.pids
	*p = pids{
		replica: n.system.NewLocalPID("replica"), apply: n.system.NewLocalPID("apply"),
		expiry: n.system.NewLocalPID("expiry"), watch: n.system.NewLocalPID("watch"),
		root: n.system.NewLocalPID("node"), operator: n.system.NewLocalPID("operator"), spawned: map[string]bool{},
	}
	// Whoever is sent to must be there first: apply before the log that brings it
	// entries, the log before the replica that proposes.
	n.spawn(p.watch, watch.Props(watch.Config{Apply: p.apply, Consumers: p.root, Limits: cfg.Watch, Telemetry: n.meter}))
	n.spawn(p.apply, apply.Props(apply.Config{Replica: p.replica, Expiry: p.expiry, Watch: p.watch, Telemetry: n.meter, Initial: initial, ApplyVersion: cfg.Seams.ApplyVersion}))
	n.spawn(p.expiry, expiry.Props(expiry.Config{
		Replica: p.replica, Apply: p.apply, Telemetry: n.meter,
		TickMs: cfg.ExpiryTick.Milliseconds(), WakeMs: cfg.ClockInterval.Milliseconds(),
	}))
	gateway, err := session.NewGateway(n.system, session.Config{
		Replica: p.replica, Apply: p.apply, Watch: p.watch, Operator: p.operator, Node: n.facts, Telemetry: sessionTelemetry{n.meter}, Logger: cfg.Logger,
		Limits: cfg.Sessions, Recovery: n.recovers,
		ProcessorTime: processorTimeBy(cfg.Clock),
		Elapsed:       elapsedBy(cfg.Clock),
		GatewayProps:  n.props("gateway"), SessionProps: n.props("session"),
	})
	if err != nil {
		return err
	}
	n.gateway = gateway
	if err := n.openLog(); err != nil {
		return err
	}
	n.spawn(p.operator, actor.PropsFromProducer(func() actor.Actor { return &operator{node: n} }))
	bootstrapped := make(chan struct{})
	n.spawn(p.root, actor.PropsFromProducer(func() actor.Actor {
		return &root{
			replica: p.replica, apply: p.apply, watch: p.watch, logger: cfg.Logger, facts: n.facts, ready: bootstrapped,
			reporter: reporter{replicaID: cfg.ReplicaID}, leftovers: leftovers{floor: n.floor()},
			raiser: raiser{supported: n.supportedVersion, logger: cfg.Logger},
			bootstrap: &messages.Bootstrap{
				ClusterId: newClusterID(cfg.Seams.Random), Incarnation: cfg.Incarnation, Config: cfg.Bootstrap,
			},
		}
	}))
	n.bootstrapped = bootstrapped
	n.spawn(p.replica, replica.Props(replica.Config{
		Log: n.log, Clock: cfg.Clock, Limits: cfg.Replica, Nonce: nonces(cfg.Seams.Random), Telemetry: n.meter,
		Apply: p.apply, Expiry: p.expiry,
		Subscribers: []*actor.PID{p.root, p.watch, n.gateway.PID()},
		Peers:       n.peers(),
	}))
	n.startClock()
	return nil
}

// floor is the revision at which a restored cluster began; 0 for another.
func (n *Node) floor() uint64 {
	if n.seed == nil {
		return 0
	}
	return n.seed.Floor
}

// openLog opens the log. Alone, the node listens on a port that was free a moment
// ago: it tries another one if somebody else was faster.
func (n *Node) openLog() error {
	applier := apply.NewApplier(n.system, n.pids.apply, n.fail.halted)
	applier.Restored, applier.ApplyVersion = n.restoredLog, n.cfg.Seams.ApplyVersion
	listener := replica.Listener{System: n.system, PID: n.pids.replica}
	if open := n.cfg.Seams.OpenLog; open != nil {
		var err error
		n.log, err = open(applier, listener)
		return err
	}
	if err := n.mend(); err != nil {
		return err
	}
	const attempts = 3
	for attempt := 1; ; attempt++ {
		cfg, err := n.cfg.dragonboat()
		if err != nil {
			return err
		}
		n.log, err = consensus.OpenDragonboat(cfg, applier, listener)
		if err == nil {
			return nil
		}
		n.log = nil
		if n.cfg.RaftAddress != "" || attempt == attempts || !taken(cfg.ListenAddress) {
			return err
		}
	}
}

// mend drops a torn last record, if it is asked to and there is one.
func (n *Node) mend() error {
	if !n.cfg.MendTornLog {
		return nil
	}
	t, err := consensus.CheckTail(n.cfg.FS, n.cfg.Dir)
	if torn := err == nil && t.State == consensus.TailTorn; !torn {
		return nil // opening the log says what else is wrong with it
	}
	if t, err = consensus.CutTornTail(n.cfg.FS, n.cfg.Dir); err == nil {
		n.cfg.Logger.Warn("the torn end of the log was cut off", "file", t.File, "bytes", t.Bytes-t.IntactBytes, "kept", t.File+".torn")
	}
	return err
}

func taken(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return true
	}
	_ = l.Close() // nothing was accepted on it
	return false
}

func (n *Node) spawn(pid *actor.PID, props *actor.Props) {
	props.Configure(n.props(pid.GetId())...)
	if _, err := n.system.Root.SpawnNamed(n.fail.guard(props), pid.GetId()); err != nil {
		panic(fmt.Sprintf("node: two actors are called %s", pid.GetId()))
	}
	n.pids.spawned[pid.GetId()] = true
}

// props are what all actors have in common; in a simulation it is the one to say.
func (n *Node) props(name string) []actor.PropsOption {
	if n.cfg.Seams.Props == nil {
		return []actor.PropsOption{actor.WithDispatcher(roomyDispatcher{})}
	}
	return n.cfg.Seams.Props(n.system, name)
}

func (n *Node) startClock() {
	tell := func(to ...*actor.PID) func() {
		return func() {
			m := &messages.ClockTick{MonotonicMs: n.cfg.Clock.MonotonicMs()}
			for _, pid := range to {
				n.system.Root.Send(pid, m)
			}
		}
	}
	p := n.pids
	n.stopClock = append(n.stopClock,
		n.cfg.Clock.Every(n.cfg.ClockInterval, tell(p.replica, p.expiry, p.root)),
		n.cfg.Clock.Every(max(gatewayInterval, n.cfg.ClockInterval), tell(p.watch, n.gateway.PID())))
}

// awaitReady opens the node for clients once it can serve.
func (n *Node) awaitReady() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-n.closing:
		case <-n.fail.halted:
		case <-ctx.Done():
		}
		cancel()
	}()
	if n.log.WaitReady(ctx) != nil {
		return
	}
	select {
	case <-n.bootstrapped:
	case <-ctx.Done():
		return
	}
	if n.seed != nil && n.seedUsed {
		// Whoever is added later has no seed: it must begin with a snapshot.
		if err := consensus.Shorten(n.log, time.Minute); err != nil {
			n.cfg.Logger.Warn("no snapshot was made of what was restored: do not add members before one is", "error", err)
		}
	}
	n.facts.ready.Store(true)
	close(n.ready)
	n.cfg.Logger.Info("node ready", "replica", n.cfg.ReplicaID, "clients", n.Addr(), "admin", n.AdminAddr())
}

func (n *Node) health() health {
	f := n.facts.Facts()
	h := health{
		Status: "starting", Replica: f.ReplicaID, Leader: f.LeaderID, Term: f.RaftTerm,
		Applied: n.log.Status().AppliedIndex, Revision: n.facts.applied.Load().Revision, Version: f.Version,
	}
	switch {
	case n.fail.failed.Load():
		h.Status = "failed"
	case isClosed(n.closing):
		h.Status = "stopping"
	case f.Ready:
		h.Status = "ready"
	}
	return h
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// nonces returns what makes the numbers that no other attempt to own the clock has
// used, in this process or in any other.
func nonces(random func() uint64) func() uint64 {
	if random != nil {
		return random
	}
	return func() uint64 {
		var b [8]byte
		rand.Read(b[:]) // never fails
		return binary.BigEndian.Uint64(b[:])
	}
}

func newClusterID(random func() uint64) []byte {
	next := nonces(random)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, next()), next())
}
