package replica

import "github.com/concord-kv/concord/messages"

// leaderSeen takes what the log says about leadership. Hearing the same twice
// changes nothing.
func (c *core) leaderSeen(leaderID, term uint64) {
	if term < c.term || term == c.term && leaderID == c.leaderID {
		return
	}
	led := c.leads
	c.leaderID, c.term = leaderID, term
	c.leads = leaderID != 0 && leaderID == c.clock.replicaID
	c.out.leaderChanged(&messages.LeaderChanged{LeaderId: leaderID, RaftTerm: term, IsLeader: c.leads})
	// A claim of an earlier term may never be answered; a new one names the epoch
	// it expects, so that at most one of them applies.
	c.clock.claim.entry = 0
	c.disown()
	c.endRelaysOfOthers()
	// A barrier that waits for a leader that is gone would wait for its timeout.
	if leaderID != 0 && c.barriers.restart() {
		c.out.flushSoon()
	}
	if !c.leads {
		if led {
			c.refuseWaiting(c.notLeading().Detail)
		}
		return
	}
	// A leader anew, even if it led before: somebody may have led in between.
	c.clock.claim.nextMs = 0
	c.out.askClockOwner()
	c.tryClaim()
}

// clockOwner takes what apply says about the owner of the clock.
func (c *core) clockOwner(m *messages.ClockOwner) {
	if c.clock.saw(m) {
		c.out.clockOwned(&messages.ClockOwned{})
	}
	c.tryClaim()
}

// disown stops stamping.
func (c *core) disown() {
	if c.clock.owned {
		c.clock.owned = false
		c.out.clockOwned(&messages.ClockOwned{})
	}
}

// tryClaim proposes to own the lease clock when this replica leads and does not.
// The claim has an entry of its own, outside the window: nothing else can be sent.
func (c *core) tryClaim() {
	now := c.now()
	k := &c.clock.claim
	if c.stopped || !c.leads || c.clock.owned || !c.clock.known || k.entry != 0 && now < k.lateMs || now < k.nextMs {
		return
	}
	// One that was given up may still take effect: the next then names an epoch that is
	// over, is refused, and is followed by one that names the new.
	k.nonce, k.expected = c.nonce(), c.clock.epoch
	k.nextMs, k.lateMs = now+c.limits.ClaimRetryMs, now+c.limits.ClaimTimeoutMs
	c.lastEntry++
	k.entry = c.lastEntry
	c.packer.begin(0, 0, 0)
	c.packer.add(encodeClaim(&messages.ClaimClock{
		ExpectedEpoch: k.expected, ReplicaId: c.clock.replicaID, Nonce: k.nonce,
	}), 0)
	c.out.propose(k.entry, c.packer.bytes())
}

func (c *core) claimDone(results []*messages.Result, err error) {
	c.clock.claim.entry = 0
	if err == nil && len(results) == 1 && results[0].GetError() == nil && c.leads {
		// The reading is taken after the claim was applied: later than the moment
		// that clock_ms belongs to, so that stamps can only be behind real time.
		if now := c.now(); c.clock.claimed(results[0].GetClaimClock(), now) {
			c.out.clockOwned(&messages.ClockOwned{
				Owned: true, Epoch: c.clock.epoch, ClockMs: c.clock.clockMs, MonotonicMs: now,
			})
			c.out.flushSoon()
			return
		}
	}
	if c.clock.known && c.clock.epoch > c.clock.claim.expected {
		// Apply was still replaying when the claim was made. It has told of the
		// epochs up to the claim's place in the log meanwhile: this one will hold.
		c.clock.claim.nextMs = 0
		c.tryClaim()
		return
	}
	// The next attempt waits for a tick.
	c.out.askClockOwner()
}
