package consensus

import (
	"fmt"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/statemachine"
)

// shardID is the one Raft group of a cluster. More groups on a machine are slower:
// each has its own stream of fsyncs.
const shardID = 1

// OpenDragonboat starts the replica that lives in cfg.Dir, creating it if the
// directory is new. It returns while entries may still be replayed: see WaitReady.
// The applier must be empty. An error says what is wrong with the configuration
// or the directory; nothing then runs.
//
// Dragonboat is fail-stop. When its disk fails or its state turns out broken while
// running, it panics from its own goroutines, which ends the process: that is
// intended, and nothing here tries to go on.
func OpenDragonboat(cfg DragonboatConfig, applier Applier, listener Listener) (log Log, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	quietByDefault()
	if err := refuseStraySettings(); err != nil {
		return nil, err
	}
	unlock, err := lockDir(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	if err := refuseDamage(cfg); err != nil {
		return nil, err
	}
	l := newReplicaLog(cfg, applier, unlock)
	if cfg.logDB == nil {
		cfg.logDB = quietTan{func(r *recentLog) { l.recent = r }}
	}
	certs, err := newRaftCerts(cfg)
	if err != nil {
		return nil, explainOpen(cfg, err)
	}
	host, err := openHost(cfg, transports{cfg: cfg, guard: l.guard, certs: certs, made: func(t *transport) { l.transport = t }}, l.listenerFor(listener))
	if err != nil {
		return nil, explainOpen(cfg, err)
	}
	l.host = host
	l.session = host.GetNoOPSession(shardID)
	if err := l.startReplica(); err != nil {
		closeHost(host)
		return nil, explainOpen(cfg, err)
	}
	l.guard.learn(l.members())
	l.guard.open.Store(true)
	l.start()
	return l, nil
}

// openHost turns the panics of a damaged directory into errors. NewNodeHost
// recovers panics itself and may then return neither host nor error.
func openHost(cfg DragonboatConfig, peers config.TransportFactory, listener raftio.IRaftEventListener) (host *dragonboat.NodeHost, err error) {
	defer func() {
		if r := recover(); r != nil {
			host, err = nil, fmt.Errorf("%v", r)
		}
	}()
	host, err = dragonboat.NewNodeHost(cfg.nodeHost(peers, listener))
	if err == nil && host == nil {
		err = fmt.Errorf("the log could not be opened")
	}
	return host, err
}

func (l *replicaLog) startReplica() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	// A directory remembers its replica, but dragonboat would start another one
	// beside it, empty, if the id were mistyped.
	for _, node := range l.host.GetNodeHostInfo(dragonboat.DefaultNodeHostInfoOption).LogInfo {
		if node.ShardID != shardID || node.ReplicaID != l.cfg.ReplicaID {
			return fmt.Errorf("the log is of replica %d of group %d", node.ReplicaID, node.ShardID)
		}
	}
	fresh := len(l.host.GetNodeHostInfo(dragonboat.DefaultNodeHostInfoOption).LogInfo) == 0
	known, err := openIncarnations(l.cfg, fresh)
	if err != nil {
		return err
	}
	l.guard.incarnations.Store(known)
	create := func(_, _ uint64) statemachine.IConcurrentStateMachine { return l.machine }
	return l.host.StartConcurrentReplica(l.cfg.InitialMembers, l.cfg.Join, create, l.cfg.replica())
}

// closeHost closes a host whose replica did not start; it may panic about what it
// could not open.
func closeHost(host *dragonboat.NodeHost) {
	defer func() { _ = recover() }()
	host.Close()
}
