package node

import (
	"context"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

const (
	// handoverPoll is between two looks at who leads; handoverAgain between two requests:
	// handing over is best effort.
	handoverPoll  = 10 * time.Millisecond
	handoverAgain = 500 * time.Millisecond
	// handoverAtStop bounds how long a stopping node tries.
	handoverAtStop = 3 * time.Second
)

// moveLeader hands the lead to a member, or with 0 to the one that is furthest ahead,
// and waits until that one leads.
func (n *Node) moveLeader(ctx context.Context, to uint64) error {
	m, err := n.membership(ctx)
	if err != nil {
		return noQuorum(err)
	}
	leader := n.log.Status().LeaderID
	if to == 0 {
		if to = n.furthest(m, leader); to == 0 {
			return notYet("no other voting member is alive")
		}
	}
	if _, voting := m.Voting[to]; !voting {
		return messages.InvalidField("replica_id", "replica %d is no voting member", to)
	}
	return n.handOver(ctx, to)
}

// furthest is the voting member, alive and not the leader, that has applied most.
func (n *Node) furthest(m consensus.Membership, leader uint64) (best uint64) {
	var most uint64
	for id := range m.Voting {
		if id == leader {
			continue
		}
		applied := n.facts.applied.Load().Applied
		if id != n.cfg.ReplicaID {
			p, ago := n.links.of(id)
			if ago < 0 || ago >= aliveMs {
				continue
			}
			applied = p.beat.GetAppliedIndex()
		}
		if best == 0 || applied > most || applied == most && id < best {
			best, most = id, applied
		}
	}
	return best
}

func (n *Node) handOver(ctx context.Context, to uint64) error {
	asked := int64(-1)
	ticker := time.NewTicker(handoverPoll)
	defer ticker.Stop()
	for {
		if n.log.Status().LeaderID == to {
			return nil
		}
		if now := n.cfg.Clock.MonotonicMs(); asked < 0 || now-asked >= handoverAgain.Milliseconds() {
			asked = now
			if err := n.log.TransferLeader(to); err != nil {
				return err
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "replica %d does not lead yet: it may be behind or not alive", to)
		}
	}
}

// giveUpLead hands the lead over before the node stops, so that nobody waits for an
// election. It is best effort.
func (n *Node) giveUpLead() {
	if n.links == nil || n.links.mesh.Load() == nil || n.log == nil || n.fail.failed.Load() {
		return
	}
	s := n.log.Status()
	if s.LeaderID != s.ReplicaID {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(handoverAtStop, n.cfg.CloseTimeout))
	defer cancel()
	m := n.members.known()
	for ctx.Err() == nil && n.log.Status().LeaderID == s.ReplicaID {
		to := n.furthest(m, s.ReplicaID)
		if to == 0 {
			return
		}
		part, end := context.WithTimeout(ctx, time.Second)
		err := n.handOver(part, to)
		end()
		if err == nil {
			n.cfg.Logger.Info("the lead was handed over", "to", to)
			return
		}
	}
}

// compareDigests looks for replicas whose state is not this one's. Most replicas are
// right: one that differs from a majority of the voting members stops.
func (n *Node) compareDigests() {
	m := n.members.known()
	differ, agree := 0, 1
	for id := range m.Voting {
		if id == n.cfg.ReplicaID {
			continue
		}
		p, ago := n.links.of(id)
		if ago < 0 {
			continue
		}
		digest, ok := n.facts.digests.at(p.beat.GetDigestIndex())
		switch {
		case !ok:
		case digest == p.beat.GetDigest():
			agree++
		default:
			differ++
			n.cfg.Logger.Error("a replica has another state at the same place of the log",
				"replica", id, "index", p.beat.GetDigestIndex(), "its_digest", p.beat.GetDigest(), "digest", digest)
		}
	}
	if differ > agree && differ >= len(m.Voting)/2+1 {
		n.fail.stop("digests", "this replica's state differs from that of most others: replace it by a new one under a new id", nil)
	}
}
