package consensus

import (
	"context"
	"maps"
	"time"

	"github.com/lni/dragonboat/v4"
)

// Membership implements Members.
func (l *replicaLog) Membership(timeout time.Duration, done func(Membership, error)) {
	if timeout <= 0 {
		done(Membership{}, errTimeoutField())
		return
	}
	ok := l.work(func() {
		// The barrier first: what follows then hardly waits, and holds up Close for
		// a second at most.
		reached := make(chan error, 1)
		l.ReadIndex(timeout, func(err error) { reached <- err })
		if err := <-reached; err != nil {
			done(Membership{}, err)
			return
		}
		if !l.enter() {
			done(Membership{}, errStopping())
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), min(timeout, time.Second))
		defer cancel()
		m, err := l.host.SyncGetShardMembership(ctx, shardID)
		l.leave()
		if err != nil {
			done(Membership{}, readFailed(err))
			return
		}
		done(membershipFrom(m), nil)
	})
	if !ok {
		done(Membership{}, errStopping())
	}
}

func membershipFrom(m *dragonboat.Membership) Membership {
	removed := map[uint64]bool{}
	for id := range m.Removed {
		removed[id] = true
	}
	return Membership{Order: m.ConfigChangeID, Voting: m.Nodes, NonVoting: m.NonVotings, Removed: removed}
}

type memberRequest func(order uint64, timeout time.Duration) (*dragonboat.RequestState, error)

// change asks for a membership change that is based on order; 0 means on the
// membership of now.
func (l *replicaLog) change(order uint64, timeout time.Duration, request memberRequest, done func(error)) {
	if timeout <= 0 {
		done(errTimeoutField())
		return
	}
	if order == 0 {
		l.Membership(timeout, func(m Membership, err error) {
			if err != nil {
				done(err)
				return
			}
			l.change(m.Order, timeout, request, done)
		})
		return
	}
	l.await(timeout, func() (*dragonboat.RequestState, error) {
		return request(order, timeout+2*l.cfg.Timing.RTT)
	}, proposeRefused, changeEnded, func(_ *dragonboat.RequestResult, err error) { done(err) })
}

// AddReplica implements Members.
func (l *replicaLog) AddReplica(replicaID uint64, address string, order uint64, timeout time.Duration, done func(error)) {
	l.change(order, timeout, func(order uint64, timeout time.Duration) (*dragonboat.RequestState, error) {
		return l.host.RequestAddReplica(shardID, replicaID, address, order, timeout)
	}, done)
}

// AddNonVoting implements Members.
func (l *replicaLog) AddNonVoting(replicaID uint64, address string, order uint64, timeout time.Duration, done func(error)) {
	l.change(order, timeout, func(order uint64, timeout time.Duration) (*dragonboat.RequestState, error) {
		return l.host.RequestAddNonVoting(shardID, replicaID, address, order, timeout)
	}, done)
}

// RemoveReplica implements Members.
func (l *replicaLog) RemoveReplica(replicaID uint64, order uint64, timeout time.Duration, done func(error)) {
	l.change(order, timeout, func(order uint64, timeout time.Duration) (*dragonboat.RequestState, error) {
		return l.host.RequestDeleteReplica(shardID, replicaID, order, timeout)
	}, done)
}

// TransferLeader implements Members.
func (l *replicaLog) TransferLeader(target uint64) error {
	if !l.enter() {
		return errStopping()
	}
	defer l.leave()
	if err := l.host.RequestLeaderTransfer(shardID, target); err != nil {
		return proposeRefused(err)
	}
	return nil
}

// members are the addresses of the members as this replica knows them now. The host is
// open meanwhile.
func (l *replicaLog) members() map[uint64]string {
	for _, s := range l.host.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true}).ShardInfoList {
		if s.ShardID == shardID {
			return s.Replicas
		}
	}
	return nil
}

// watchClaims lets the guard of the transport decide about replicas that it does not know.
func (l *replicaLog) watchClaims() {
	for {
		select {
		case <-l.guard.ask:
		case <-l.stop:
			return
		}
		if !l.enter() {
			return
		}
		l.guard.look(l.allMembers)
		l.leave()
	}
}

// allMembers are also those without a vote, which dragonboat tells only behind a read
// barrier. A replica that has no membership yet, or no leader, does without them.
func (l *replicaLog) allMembers() map[uint64]string {
	known := l.members()
	if len(known) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(500*time.Millisecond, 2*l.cfg.Timing.RTT))
	defer cancel()
	m, err := l.host.SyncGetShardMembership(ctx, shardID)
	if err != nil {
		return known
	}
	all := maps.Clone(m.Nodes)
	maps.Copy(all, m.NonVotings)
	return all
}
