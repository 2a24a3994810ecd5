package memlog

import (
	"maps"
	"slices"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// Membership implements consensus.Members.
func (r *Replica) Membership(timeout time.Duration, done func(consensus.Membership, error)) {
	r.ReadIndex(timeout, func(err error) {
		if err != nil {
			done(consensus.Membership{}, err)
			return
		}
		m := r.n.members
		done(consensus.Membership{
			Order: m.order, Voting: maps.Clone(m.voting), NonVoting: maps.Clone(m.nonVoting), Removed: maps.Clone(m.removed),
		}, nil)
	})
}

// AddReplica implements consensus.Members.
func (r *Replica) AddReplica(replicaID uint64, address string, order uint64, timeout time.Duration, done func(error)) {
	r.change(&change{kind: addReplica, id: replicaID, address: address, order: order}, timeout, done)
}

// AddNonVoting implements consensus.Members.
func (r *Replica) AddNonVoting(replicaID uint64, address string, order uint64, timeout time.Duration, done func(error)) {
	r.change(&change{kind: addNonVoting, id: replicaID, address: address, order: order}, timeout, done)
}

// RemoveReplica implements consensus.Members.
func (r *Replica) RemoveReplica(replicaID uint64, order uint64, timeout time.Duration, done func(error)) {
	r.change(&change{kind: removeReplica, id: replicaID, order: order}, timeout, done)
}

// TransferLeader implements consensus.Members.
func (r *Replica) TransferLeader(target uint64) error {
	if r.gone() {
		return stopping()
	}
	if r.target != 0 {
		return messages.NewError(messages.Code_CODE_OVERLOADED, "a transfer was already asked for")
	}
	r.target = target
	return nil
}

func (r *Replica) change(ch *change, timeout time.Duration, done func(error)) {
	switch {
	case timeout <= 0:
		done(messages.InvalidField("timeout_ms", "a timeout must be positive"))
	case r.gone():
		done(stopping())
	case ch.order == 0:
		r.Membership(timeout, func(m consensus.Membership, err error) {
			if err != nil {
				done(err)
				return
			}
			ch.order = m.Order
			r.change(ch, timeout, done)
		})
	case len(r.changes) > 0:
		done(messages.NewError(messages.Code_CODE_OVERLOADED, "a membership change is under way"))
	default:
		r.seq++
		r.changes = append(r.changes, &changeCall{seq: r.seq, deadline: r.deadline(timeout), done: done})
		r.queue = append(r.queue, &record{change: ch, origin: origin{r.n.id, r.boot, r.seq}})
	}
}

func (r *Replica) takeChange(o origin) *changeCall {
	if o.replica != r.n.id || o.boot != r.boot {
		return nil
	}
	for i, ch := range r.changes {
		if ch.seq == o.seq {
			r.changes = slices.Delete(r.changes, i, i+1)
			return ch
		}
	}
	return nil
}

// applyChange applies a committed change at index.
func (n *node) applyChange(rec *record, index uint64) {
	next, allowed := n.members.with(rec.change, index)
	n.pendingChange = false
	n.members = next
	if ch := n.replica.takeChange(rec.origin); ch != nil {
		var err error
		if !allowed {
			err = messages.InvalidField("order", "the membership has changed meanwhile, or does not allow this change")
		}
		n.replica.failures = append(n.replica.failures, func() { ch.done(err) })
	}
	if n.members.removed[n.id] {
		n.remove()
		return
	}
	if n.role == leader {
		n.syncPeers()
		n.maybeCommit() // a smaller quorum may have been reached
		if allowed {
			n.broadcast()
		}
	}
}

// remove takes a node out for good.
func (n *node) remove() {
	n.removed = true
	n.role, n.leaderID = follower, 0
	n.outbox = nil
	r := n.replica
	r.failures = append(r.failures, r.tellAll)
}
