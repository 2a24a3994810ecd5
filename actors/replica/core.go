package replica

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// effects is what the core asks its shell to do. None of it may come back into the
// core before the call that asked for it has returned.
type effects interface {
	// propose hands an entry to the log; payload is valid during the call only.
	// The shell answers with entryDone.
	propose(entry uint64, payload []byte)
	// readIndex asks the log for a barrier. The shell answers with barrierDone.
	readIndex(attempt uint64)
	// flushSoon asks for one call of flush after the messages that wait now.
	flushSoon()
	// askClockOwner asks apply. The shell answers with clockOwner.
	askClockOwner()

	proposed(to any, m *messages.Proposed)
	reached(to any, m *messages.BarrierReached)
	clockOwned(m *messages.ClockOwned)
	leaderChanged(m *messages.LeaderChanged)
}

// flight is an entry on its way through the log.
type flight struct {
	entry  uint64
	term   uint64
	items  []item
	bytes  int
	sentMs int64
}

// core decides; it does no I/O, starts nothing and reads no clock but the one it
// is given. One goroutine calls it.
type core struct {
	limits Limits
	now    func() int64 // the node's monotonic clock, in milliseconds
	nonce  func() uint64
	out    effects
	meter  Telemetry

	leaderID uint64
	term     uint64
	leads    bool
	stopped  bool

	clock leaseClock

	internal queue // commands of this node's own actors
	again    queue // refused as stale_clock, in their old order: they go first
	waiting  queue // clients' commands

	flights   []*flight // oldest first
	lastEntry uint64
	packer    packer
	commitMs  int64 // smoothed time an entry takes

	barriers barriers
	relays   relays
}

func newCore(replicaID uint64, limits Limits, now func() int64, nonce func() uint64, out effects, meter Telemetry) *core {
	return &core{
		limits: limits.withDefaults(), now: now, nonce: nonce, out: out, meter: meter,
		clock: leaseClock{replicaID: replicaID},
	}
}

// propose admits a request, passes it on to the leader's node, or refuses it whole.
func (c *core) propose(from any, m *messages.Propose) {
	switch {
	case len(m.GetCommands()) == 0:
	case c.passesOn(m):
		c.passOn(from, m)
	default:
		c.take(from, m)
	}
}

// take admits a request here or refuses it whole.
func (c *core) take(from any, m *messages.Propose) {
	commands := m.GetCommands()
	internal := internalCommand(commands[0])
	bytes := 0
	for _, cmd := range commands {
		bytes += messages.CommandSize(cmd)
	}
	if refusal := c.admit(internal, len(commands), bytes); refusal != nil {
		c.meter.Refused(refusal.Code(), len(commands))
		c.answerAll(from, m.GetRequestId(), len(commands), refusal.Detail)
		return
	}
	req := &request{
		from: from, id: m.GetRequestId(), internal: internal,
		deadlineMs: c.now() + timeoutMs(m.GetTimeoutMs()),
	}
	q := &c.waiting
	if internal {
		q = &c.internal
	}
	// One allocation for the request's commands: they leave together more often
	// than not.
	slab := make([]byte, 0, bytes)
	for i, cmd := range commands {
		start := len(slab)
		var err error
		if slab, err = messages.AppendCommand(slab, cmd); err != nil {
			panic(fmt.Sprintf("replica: a command that does not encode: %v", err))
		}
		q.push(item{req: req, index: uint32(i), command: slab[start:len(slab):len(slab)]})
	}
	if c.waiting.len() >= c.limits.EntryCommandsMax || c.waiting.bytes >= c.limits.EntryBytesMax {
		c.pack() // an entry is full: nothing is gained by waiting for the mailbox to run dry
	} else {
		c.out.flushSoon()
	}
}

// admit says why a request cannot be taken now; nil when it can.
func (c *core) admit(internal bool, commands, bytes int) *messages.Error {
	switch {
	case c.stopped:
		return messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node is stopping")
	case !c.leads:
		return c.notLeading()
	case internal:
		if c.internal.len()+commands > c.limits.InternalCommandsMax {
			return c.overloaded("commands of this node", c.limits.InternalCommandsMax)
		}
	case c.waiting.len()+c.again.len()+commands > c.limits.WaitingCommandsMax:
		return c.overloaded("waiting commands", c.limits.WaitingCommandsMax)
	case c.waiting.len() > 0 && c.waiting.bytes+c.again.bytes+bytes > c.limits.WaitingBytesMax:
		return c.overloaded("bytes of waiting commands", c.limits.WaitingBytesMax)
	}
	return nil
}

// readBarrier queues a reader for the next barrier.
func (c *core) readBarrier(from any, m *messages.ReadBarrier) {
	var refusal *messages.Error
	switch {
	case c.stopped:
		refusal = messages.NewError(messages.Code_CODE_NODE_STOPPING, "the node is stopping")
	case c.barriers.len() >= c.limits.BarriersMax:
		refusal = c.overloaded("reads waiting for a barrier", c.limits.BarriersMax)
	}
	if refusal != nil {
		c.meter.Refused(refusal.Code(), 1)
		c.out.reached(from, &messages.BarrierReached{RequestId: m.GetRequestId(), Error: refusal.Detail})
		return
	}
	c.barriers.waiting = append(c.barriers.waiting, reader{
		from: from, id: m.GetRequestId(), deadlineMs: c.now() + timeoutMs(m.GetTimeoutMs()),
	})
	c.out.flushSoon()
}

// flush sends what waits.
func (c *core) flush() {
	c.pack()
	c.startBarrier()
}

func (c *core) startBarrier() {
	if attempt, ok := c.barriers.start(); ok {
		c.out.readIndex(attempt)
	}
}

// barrierDone ends an attempt of readIndex.
func (c *core) barrierDone(attempt uint64, err error) {
	c.barriers.finish(attempt, err, func(r reader) {
		c.out.reached(r.from, &messages.BarrierReached{RequestId: r.id})
	})
	c.out.flushSoon()
}

// pack fills entries while there is room for one in flight: this node's own
// commands first, then those that come again, then clients'.
func (c *core) pack() {
	for c.leads && c.clock.owned && c.mayPack() {
		f := &flight{}
		c.packer.begin(c.clock.epoch, c.clock.replicaID, c.clock.nonce)
		// One reading for the entry: it is later than the receipt of each command.
		now := c.now()
		stamp := c.clock.stamp(now)
		for _, q := range []*queue{&c.internal, &c.again, &c.waiting} {
			c.fill(f, q, stamp)
		}
		if len(f.items) == 0 {
			return
		}
		c.send(f, now)
	}
}

// heldMsMax is how long an entry in flight may hold back others that are not full.
const heldMsMax = 250

// mayPack says whether another entry may go out. While one is in flight clients'
// commands wait for it, unless they are many: two small entries cost twice what one of
// both costs, in syncs, messages and wake-ups of every node.
func (c *core) mayPack() bool {
	n := c.inFlight()
	switch {
	case n == 0:
		return true
	case n >= c.limits.EntriesInFlight:
		return false
	}
	return c.internal.len() > 0 || c.now()-c.flights[len(c.flights)-1].sentMs >= heldMsMax || 2*(c.waiting.len()+c.again.len()) >= c.limits.EntryCommandsMax ||
		2*(c.waiting.bytes+c.again.bytes) >= c.limits.EntryBytesMax
}

func (c *core) fill(f *flight, q *queue, stampMs int64) {
	for len(f.items) < c.limits.EntryCommandsMax {
		bytes, ok := q.peek()
		if !ok || len(f.items) > 0 && f.bytes+bytes > c.limits.EntryBytesMax {
			return
		}
		if f.items == nil {
			f.items = make([]item, 0, min(c.limits.EntryCommandsMax, c.internal.len()+c.again.len()+c.waiting.len()))
		}
		it := q.pop()
		c.packer.add(it.command, stampMs)
		f.items = append(f.items, it)
		f.bytes += bytes
	}
}

func (c *core) send(f *flight, nowMs int64) {
	c.lastEntry++
	f.entry, f.term, f.sentMs = c.lastEntry, c.term, nowMs
	c.flights = append(c.flights, f)
	c.out.propose(f.entry, c.packer.bytes())
}

// inFlight counts the entries that keep others back. Those of an earlier term do
// not: the log may take until its timeout to say what became of them.
func (c *core) inFlight() int {
	n := 0
	for _, f := range c.flights {
		if f.term == c.term {
			n++
		}
	}
	return n
}

// tick lets time pass: deadlines, and what is tried again.
func (c *core) tick() {
	now := c.now()
	late := func(it item) { c.answer(it, timedOut(false)) }
	c.internal.expire(now, late)
	c.again.expire(now, late)
	c.waiting.expire(now, late)
	c.expireFlights(now)
	c.expireRelays(now)
	c.barriers.hold = false
	c.barriers.expire(now, func(r reader) {
		detail := c.barriers.failure
		if detail == nil {
			detail = timedOut(false)
		}
		c.out.reached(r.from, &messages.BarrierReached{RequestId: r.id, Error: detail})
	})
	c.tryClaim()
	c.flush()
}

func timeoutMs(asked uint32) int64 {
	if asked == 0 {
		return messages.RequestTimeoutMsDefault
	}
	return int64(min(asked, messages.RequestTimeoutMsMax))
}
