package replica

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// entryDone takes what became of an entry: its results in the order of its
// commands, or why there are none.
func (c *core) entryDone(entry uint64, results []*messages.Result, err error) {
	if entry == c.clock.claim.entry {
		c.claimDone(results, err)
		return
	}
	f := c.takeFlight(entry)
	if f == nil {
		return
	}
	if err == nil && results == nil {
		// Apply gave none: it has failed, and this process is about to.
		err = messages.UnknownOutcome(messages.Code_CODE_NODE_STOPPING, "the node is stopping")
	}
	if err != nil {
		failed := &messages.Result{Error: messages.DetailOf(err)}
		results = make([]*messages.Result, len(f.items))
		for i := range results {
			results[i] = failed
		}
	} else {
		if len(results) != len(f.items) {
			panic(fmt.Sprintf("replica: %d results for the %d commands of entry %d", len(results), len(f.items), entry))
		}
		took := max(0, c.now()-f.sentMs)
		c.commitMs += (took - c.commitMs) / 8
		c.meter.Committed(len(f.items), f.bytes, took)
	}
	c.deliver(f.items, results)
	c.out.flushSoon()
}

// deliver answers items with their results, one message for each run of commands
// of one request. Stale ones come again instead.
func (c *core) deliver(items []item, results []*messages.Result) {
	for i := 0; i < len(items); {
		if c.stale(items[i], results[i]) {
			c.retry(items[i])
			i++
			continue
		}
		j := i + 1
		for j < len(items) && items[j].req == items[i].req && items[j].index == items[j-1].index+1 && !c.stale(items[j], results[j]) {
			j++
		}
		if req := items[i].req; !req.over {
			c.out.proposed(req.from, &messages.Proposed{RequestId: req.id, First: items[i].index, Results: results[i:j]})
		}
		i = j
	}
}

// stale says whether a command was refused only because another node claimed the
// clock between its stamp and its place in the log. A node's own commands are not
// repeated: what they were about may have changed, and their senders look again.
func (c *core) stale(it item, r *messages.Result) bool {
	return !it.req.internal && r.GetError().GetCode() == messages.Code_CODE_STALE_CLOCK
}

// retry queues a stale command again, behind those of its kind and ahead of all
// others. It was not applied.
func (c *core) retry(it item) {
	switch {
	case it.req.over:
	case c.stopped:
		c.answer(it, messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node is stopping").Detail)
	case !c.leads:
		c.answer(it, c.notLeading().Detail)
	default:
		c.again.push(it)
	}
}

// answer refuses one command, unless its request is over.
func (c *core) answer(it item, detail *messages.ErrorDetail) {
	if it.req.over {
		return
	}
	c.out.proposed(it.req.from, &messages.Proposed{
		RequestId: it.req.id, First: it.index, Results: []*messages.Result{{Error: detail}},
	})
}

// answerAll refuses a request that was not admitted.
func (c *core) answerAll(to any, requestID uint64, commands int, detail *messages.ErrorDetail) {
	refused := &messages.Result{Error: detail}
	results := make([]*messages.Result, commands)
	for i := range results {
		results[i] = refused
	}
	c.out.proposed(to, &messages.Proposed{RequestId: requestID, Results: results})
}

// expireFlights tells the requests whose deadline has passed that the outcome of
// what is in flight is unknown. A result that still comes is for nobody. The
// queues were expired before, so nothing of those requests waits elsewhere.
func (c *core) expireFlights(nowMs int64) {
	for _, f := range c.flights {
		for _, it := range f.items {
			if it.req.deadlineMs <= nowMs {
				c.answer(it, timedOut(true))
			}
		}
	}
	for _, f := range c.flights {
		for _, it := range f.items {
			if it.req.deadlineMs <= nowMs {
				it.req.over = true
			}
		}
	}
}

func (c *core) takeFlight(entry uint64) *flight {
	for i, f := range c.flights {
		if f.entry == entry {
			c.flights = append(c.flights[:i], c.flights[i+1:]...)
			return f
		}
	}
	return nil
}

// stop refuses everything that waits and whatever comes. What is in flight has an
// unknown outcome.
func (c *core) stop() {
	c.stopped = true
	stopping := messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node is stopping").Detail
	c.refuseWaiting(stopping)
	unknown := messages.UnknownOutcome(messages.Code_CODE_NODE_STOPPING, "the node is stopping").Detail
	for _, f := range c.flights {
		for _, it := range f.items {
			c.answer(it, unknown)
		}
	}
	c.flights = nil
	c.endRelays(func(*relay) bool { return true }, unknown)
	c.barriers.expire(1<<63-1, func(r reader) {
		c.out.reached(r.from, &messages.BarrierReached{RequestId: r.id, Error: stopping})
	})
}

func (c *core) refuseWaiting(detail *messages.ErrorDetail) {
	for _, q := range []*queue{&c.internal, &c.again, &c.waiting} {
		q.drain(func(it item) { c.answer(it, detail) })
	}
}

// notLeading is the refusal of a replica that does not lead, where nothing is passed
// on.
func (c *core) notLeading() *messages.Error {
	if c.leaderID == 0 {
		e := messages.NewError(messages.Code_CODE_NO_LEADER, "no leader is known")
		e.Detail.RetryAfterMs = noLeaderRetryMs
		return e
	}
	return messages.NewError(messages.Code_CODE_NOT_LEADER, "replica %d leads", c.leaderID)
}

// noLeaderRetryMs is about a third of an election.
const noLeaderRetryMs = 100

// overloaded refuses with the time that the queue needs to drain at the pace of
// the last entries.
func (c *core) overloaded(what string, limit int) *messages.Error {
	e := messages.NewError(messages.Code_CODE_OVERLOADED, "too many %s", what).WithLimit(uint64(limit))
	entries := int64(c.waiting.len()/c.limits.EntryCommandsMax + c.waiting.bytes/c.limits.EntryBytesMax + 1)
	wait := entries * max(1, c.commitMs) / int64(c.limits.EntriesInFlight)
	e.Detail.RetryAfterMs = uint32(min(max(wait, 10), 1_000))
	return e
}

func timedOut(unknown bool) *messages.ErrorDetail {
	e := messages.NewError(messages.Code_CODE_TIMEOUT, "the request's time is up")
	if unknown {
		e.Detail.Outcome = messages.Outcome_OUTCOME_UNKNOWN
	}
	return e.Detail
}
