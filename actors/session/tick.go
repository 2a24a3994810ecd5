package session

import "github.com/concord-kv/concord/messages"

// closeMs is how long a closing stream may take to write what is queued.
const closeMs = 2_000

// tick says what time it is, how many messages the pump has received so far, and
// whether it waits for the session itself.
func (c *core) tick(nowMs int64, received uint64, pumpWaits bool) {
	if !c.ticked {
		c.ticked = true
		c.nowMs, c.bornMs, c.beatMs = nowMs, nowMs, nowMs
		c.shiftDeadlines(nowMs)
		return
	}
	passed := max(nowMs-c.nowMs, 0)
	c.nowMs += passed
	c.refreshFacts()
	switch c.phase {
	case closing:
		if c.nowMs-c.closedMs >= closeMs {
			c.port.closeStream(nil, true)
		}
		return
	case opening:
		if c.nowMs-c.bornMs >= helloMs {
			c.violated("no hello")
		}
		return
	}
	c.release()
	if c.watchWriter(passed); c.phase == closing {
		return
	}
	if c.listen(passed, received, pumpWaits); c.phase == closing {
		return
	}
	c.refreshIdentity()
	c.tellEndpoints()
	c.expireWrites()
	c.expireReads()
	c.expireAdmins()
	c.retryReads()
	if c.nowMs-c.beatMs+tickMs > c.everyMs {
		c.beatMs = c.nowMs
		c.beats++
		c.send(&messages.ServerMessage{Message: &messages.ServerMessage_Heartbeat{Heartbeat: &messages.Heartbeat{Number: c.beats}}})
	}
}

// shiftDeadlines moves what was noted before time was known.
func (c *core) shiftDeadlines(nowMs int64) {
	for r := range c.allReads() {
		r.deadlineMs += nowMs
	}
	for _, p := range c.writes.byRequest {
		p.deadlineMs += nowMs
	}
	for id, a := range c.admins {
		a.deadlineMs += nowMs
		c.admins[id] = a
	}
}

// tickMaxMs is the most that one tick counts for: a node that was suspended itself
// must not blame its clients.
const tickMaxMs = 2 * tickMs

// watchWriter closes a stream whose client takes nothing.
func (c *core) watchWriter(passed int64) {
	backlog, sent := c.port.waiting()
	if c.admission.crowdedOut(c.client, backlog) {
		c.crowded()
		return
	}
	if backlog == 0 || sent != c.sent {
		c.sent, c.stalledMs = sent, 0
		return
	}
	if c.stalledMs += min(passed, tickMaxMs); c.stalledMs >= c.cfg.Limits.StallMs {
		c.cut(messages.NewError(messages.Code_CODE_SLOW_CONSUMER, "the client has taken nothing for %d ms", c.cfg.Limits.StallMs).
			WithLimit(uint64(c.cfg.Limits.StallMs)))
	}
}

// listen closes a stream whose client is silent.
func (c *core) listen(passed int64, received uint64, pumpWaits bool) {
	if received != c.heard || pumpWaits {
		c.heard, c.silentMs = received, 0
		return
	}
	c.silentMs += min(passed, tickMaxMs)
	if limit := messages.HeartbeatsMissedMax * c.everyMs; c.silentMs >= limit {
		c.cut(messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "nothing heard for %d ms", limit))
	}
}
