package replica

import "github.com/concord-kv/concord/messages"

// leaseClock is this replica's side of the lease clock: whether it owns it, and
// what it stamps.
//
// A stamp is A + (now - M): A the clock right after the claim was applied, M this
// node's monotonic reading after that. Both are fixed for the epoch. Anchoring
// again at later entries would lose the time between a stamp and its applying,
// under load every time, and let leases be born dead.
type leaseClock struct {
	replicaID uint64

	// The owner as apply last told.
	known bool
	epoch uint64
	owner uint64
	nonce uint64

	owned    bool
	clockMs  int64 // A
	anchorMs int64 // M

	claim claim
}

// claim is one attempt to become the owner.
type claim struct {
	entry    uint64 // its entry in flight; 0 for none
	expected uint64 // the epoch it names
	nonce    uint64
	nextMs   int64 // no attempt before this
	lateMs   int64 // when the one in flight is given up
}

// stamp returns the lease clock at nowMs. Only the owner has one.
func (c *leaseClock) stamp(nowMs int64) int64 {
	if !c.owned {
		panic("replica: a stamp without owning the clock")
	}
	return c.clockMs + max(0, nowMs-c.anchorMs)
}

// saw takes what apply tells about the owner. It returns true if that ends this
// replica's ownership.
func (c *leaseClock) saw(m *messages.ClockOwner) (lost bool) {
	if c.known && m.GetEpoch() < c.epoch {
		return false // older than an answer that has already come
	}
	lost = c.owned && (m.GetReplicaId() != c.replicaID || m.GetNonce() != c.nonce)
	c.known = true
	c.epoch, c.owner, c.nonce = m.GetEpoch(), m.GetReplicaId(), m.GetNonce()
	if lost {
		c.owned = false
	}
	return lost
}

// claimed takes the answer to the attempt in flight. It returns true if this
// replica is the owner now.
func (c *leaseClock) claimed(r *messages.ClaimClockResult, nowMs int64) bool {
	if c.known && r.GetEpoch() < c.epoch {
		return false // somebody else claimed right after
	}
	c.known, c.owned = true, true
	c.epoch, c.owner, c.nonce = r.GetEpoch(), c.replicaID, c.claim.nonce
	c.clockMs, c.anchorMs = r.GetClockMs(), nowMs
	return true
}
