package session

import "github.com/concord-kv/concord/messages"

// closeMs is how long a closing stream may take to write what is queued.
const closeMs = 2_000

// tick says what time it is, how many messages the pump has received so far, and
// whether it waits for the session itself.
func (c *core) tick(nowMs int64, received uint64, pumpWaits bool) {
	if !c.ticked {
		c.ticked = true
		c.nowMs, c.bornMs, c.movedMs, c.beatMs = nowMs, nowMs, nowMs, nowMs
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
	if c.watchWriter(); c.phase == closing {
		return
	}
	if c.listen(passed, received, pumpWaits); c.phase == closing {
		return
	}
	c.expireWrites()
	c.expireReads()
	c.retryReads()
	if c.nowMs-c.beatMs+tickMs > c.cfg.Limits.HeartbeatMs {
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
}

// watchWriter closes a stream whose client takes nothing.
func (c *core) watchWriter() {
	backlog, sent := c.port.waiting()
	if backlog == 0 || sent != c.sent {
		c.sent, c.movedMs = sent, c.nowMs
	} else if c.nowMs-c.movedMs >= c.cfg.Limits.StallMs {
		c.cut(messages.NewError(messages.Code_CODE_SLOW_CONSUMER, "the client has taken nothing for %d ms", c.cfg.Limits.StallMs).
			WithLimit(uint64(c.cfg.Limits.StallMs)))
	}
}

// listen closes a stream whose client is silent. A tick counts for no more than
// two: a node that was suspended itself must not blame its clients.
func (c *core) listen(passed int64, received uint64, pumpWaits bool) {
	if received != c.heard || pumpWaits {
		c.heard, c.silentMs = received, 0
		return
	}
	c.silentMs += min(passed, 2*tickMs)
	if limit := messages.HeartbeatsMissedMax * c.cfg.Limits.HeartbeatMs; c.silentMs >= limit {
		c.cut(messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "nothing heard for %d ms", limit))
	}
}
