package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/actors/etcd"
	"github.com/concord-kv/concord/actors/session"
	"github.com/concord-kv/concord/cluster/remoting"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// Node is one member of a cluster, running in this process. Start it with Start
// and end it with Close. Its methods may be called from any goroutine.
type Node struct {
	cfg    Config
	system *actor.ActorSystem
	pids   pids
	fail   *failStop
	facts  *facts
	meter  *telemetry

	log      consensus.Log
	gateway  *session.Gateway
	dialer   transport.Dialer
	clients  *transport.GRPCServer // nil without ClientAddress
	services *remoting.Listener    // nil without Actors
	admin    *admin                // nil without AdminAddress
	etcd     *etcd.Server          // nil without Etcd
	links    *links
	members  members
	backups  backups
	seed     *Seed // nil unless the data directory was restored or imported
	// seedUsed: the log has no snapshot yet, so the state began with the seed.
	seedUsed bool

	stopClock []func()

	bootstrapped <-chan struct{} // closed by root
	ready        chan struct{}   // closed once the node can serve
	closing      chan struct{}
	closed       chan struct{}
	closeOnce    sync.Once
	closeErr     error
	waits        sync.WaitGroup // the goroutine that waits for ready
}

// Start starts a node and waits until it can serve: it has replayed its log, its
// cluster has a leader and is bootstrapped (which it does itself when the cluster
// is new). It gives up after Config.StartTimeout, with not_ready. An error means
// that nothing runs; it is a *messages.Error.
func Start(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg:   cfg,
		ready: make(chan struct{}), closing: make(chan struct{}), closed: make(chan struct{}),
	}
	if err := n.open(); err != nil {
		_ = n.Close()
		return nil, startError(err)
	}
	if cfg.StartTimeout < 0 {
		return n, nil
	}
	timeout := time.NewTimer(cfg.StartTimeout)
	defer timeout.Stop()
	select {
	case <-n.ready:
		return n, nil
	case <-n.fail.halted:
		err = messages.NewError(messages.Code_CODE_INTERNAL, "the node failed while starting")
	case <-timeout.C:
		err = messages.NewError(messages.Code_CODE_NOT_READY, "the node could not serve within %v", cfg.StartTimeout)
	}
	_ = n.Close()
	return nil, err
}

func startError(err error) error {
	if e := (*messages.Error)(nil); errors.As(err, &e) {
		return err
	}
	e := messages.NewError(messages.Code_CODE_UNAVAILABLE, "the node cannot start")
	e.Err = err
	return e
}

// Ready is closed once the node can serve.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Failed is closed when an actor of the node has failed and Config.Fail, which
// ends the process by default, has been called.
func (n *Node) Failed() <-chan struct{} { return n.fail.halted }

// Removed is closed when this node has learnt that it was removed from its cluster. It
// serves nothing any more; its id never comes back.
func (n *Node) Removed() <-chan struct{} { return n.links.removed }

// Addr returns the address that gRPC clients dial; empty without one.
func (n *Node) Addr() string {
	if n.clients == nil {
		return ""
	}
	return n.clients.Addr().String()
}

// ActorAddr returns the address that services name in remoting.Gateway; empty
// without one.
func (n *Node) ActorAddr() string {
	if n.services == nil {
		return ""
	}
	return n.services.Address()
}

// AdminAddr returns the address of /metrics and /healthz; empty without one.
func (n *Node) AdminAddr() string {
	if n.admin == nil {
		return ""
	}
	return n.admin.listener.Addr().String()
}

// Dialer connects clients in this process to the node, whatever the endpoint.
func (n *Node) Dialer() transport.Dialer { return n.dialer }

// Serve serves one connection that came in another way than by the node's own
// listener, until it ends. It is a transport.Handler.
func (n *Node) Serve(stream transport.ServerStream) { n.gateway.Serve(stream) }

// Status returns what the node knows about itself and its cluster.
func (n *Node) Status(ctx context.Context) (*messages.StatusReply, error) {
	v, err := n.view(ctx)
	if err != nil {
		return nil, err
	}
	s, f := v.Status(), n.facts.Facts()
	s.ReplicaId, s.LeaderId, s.RaftTerm = f.ReplicaID, f.LeaderID, f.RaftTerm
	s.Watchers, s.Clients = f.Watches, uint64(max(0, n.facts.connections.Load()))
	s.Version, s.UptimeMs, s.LeaderSilentMs = f.Version, f.UptimeMs, f.LeaderSilentMs
	s.ApplyLongestMs, s.ApplyLongestRecentMs = f.ApplyLongestMs, f.ApplyRecentMs
	return s, nil
}

// Snapshot saves a snapshot of what is applied and shortens the log. It blocks
// until that is done, at most for timeout.
func (n *Node) Snapshot(timeout time.Duration) error { return n.log.RequestSnapshot(timeout) }

// view asks apply for a view.
func (n *Node) view(ctx context.Context) (*state.View, error) {
	timeout := n.cfg.CloseTimeout
	if d, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(d))
	}
	got, err := n.system.Root.RequestFuture(n.pids.apply, &state.GetView{}, timeout).Result()
	if err != nil {
		e := messages.NewError(messages.Code_CODE_UNAVAILABLE, "no view of the state")
		e.Err = err
		return nil, e
	}
	m, ok := got.(*state.GotView)
	if !ok || m.View == nil {
		return nil, messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node is stopping")
	}
	return m.View, nil
}

// Close stops the node: clients are told that it stops, what waits is refused,
// what is in flight is unknown to its senders, and everything that was
// acknowledged is on disk. It returns when nothing of the node runs any more. A
// second Close waits for the first and returns the same.
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		close(n.closing)
		n.closeErr = n.shutdown()
		close(n.closed)
	})
	<-n.closed
	return n.closeErr
}

// shutdown hands the lead over and stops the parts in the reverse of the order in which they need each
// other: sessions, which first answer what is in flight, the actors that propose, the log, the state machine
// that the log waits for, the clock.
func (n *Node) shutdown() error {
	n.giveUpLead()
	n.facts.ready.Store(false)
	var errs []error
	within := func(f func(context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), n.cfg.CloseTimeout)
		defer cancel()
		if err := f(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	n.backups.close()
	within(n.closeEtcd)
	if n.gateway != nil {
		within(n.gateway.Close)
	}
	if n.clients != nil {
		within(n.clients.Shutdown)
	}
	if n.services != nil {
		n.services.Close()
	}
	for _, stop := range n.stopClock {
		stop()
	}
	if n.links != nil {
		n.links.close()
	}
	n.stopActors(n.pids.operator, n.pids.root, n.pids.expiry, n.pids.watch, n.pids.replica)
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	n.waits.Wait()
	n.stopActors(n.pids.apply)
	if n.admin != nil {
		errs = append(errs, n.admin.close(n.cfg.CloseTimeout))
	}
	if n.meter != nil {
		within(n.meter.close)
	}
	if n.system != nil {
		n.system.Shutdown()
	}
	return errors.Join(errs...)
}

// stopActors stops actors that were spawned, one after the other.
func (n *Node) stopActors(list ...*actor.PID) {
	for _, pid := range list {
		if pid == nil || !n.pids.spawned[pid.GetId()] {
			continue
		}
		if err := n.system.Root.StopFuture(pid).Wait(); err != nil {
			n.cfg.Logger.Warn("an actor did not stop", "actor", pid.GetId(), "error", err)
		}
	}
}

// listen opens a listener; nil for an empty address.
func listen(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	return net.Listen("tcp", address)
}

// quietHandler passes on what is at least a warning: the actor library logs each
// message that misses its actor, which is an everyday thing.
type quietHandler struct{ slog.Handler }

func (h quietHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}
