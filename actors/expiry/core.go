package expiry

import "github.com/concord-kv/concord/messages"

// Bounds of what is under way at once.
const (
	// proposalsMax is how many proposals of leases are in flight. It is one: what clients
	// write meanwhile then waits for one entry of ended leases at most, and goes along
	// with the next.
	proposalsMax = 1
	// commandsMax is how many ExpireLeases share a proposal at most. Fewer do when
	// leases hold many keys: an entry is applied in one go, and keep-alives wait
	// behind it.
	commandsMax = 8
	// keysPerCommand is where a command counts as heavy.
	keysPerCommand = 1_000
	// proposalTimeoutMs is how long replica may take with a proposal.
	proposalTimeoutMs = 5_000
	// answerWaitMs is when an answer that must come is given up for lost.
	answerWaitMs = 2 * proposalTimeoutMs
	// failureWaitMs is the pause after a proposal failed.
	failureWaitMs = 100
)

// effects is what the core asks its shell to do.
type effects interface {
	askDue(m *messages.DueLeases)
	propose(m *messages.Propose)
}

// core decides when to look and what to propose. One goroutine calls it; time comes
// in with tick.
type core struct {
	tickMs, wakeMs int64
	rate           int64 // leases a second
	out            effects
	meter          Telemetry

	nowMs int64 // the last tick's reading
	owned bool
	// The lease clock is clockMs + (nowMs - anchorMs): replica's own estimate.
	clockMs, anchorMs int64

	lastID     uint64
	asked      uint64 // the question that is out; 0 for none
	askedMs    int64  // when the last question went out
	again      bool   // look at the next wake, whatever the deadlines say
	holdMs     int64  // do not look before this
	room       int64  // how many leases may be ended now, in thousandths; below 0: too many were
	deadlineMs int64  // the earliest that is known, on the lease clock; 0 for none

	ticked   uint64 // the tick that is in flight; 0 for none
	tickedMs int64

	wave     wave
	commands int // ExpireLeases that share a proposal now, 1 to commandsMax
}

// wave is what was proposed after one answer of apply.
type wave struct {
	open      map[uint64]int // commands without an answer, by request
	startedMs int64
	full      bool // apply had more than was asked for
	failed    bool
	leases    int
	expired   int
	skipped   int
	keys      uint64
	sent      int // ExpireLeases commands
}

func newCore(tickMs, wakeMs, rate int64, out effects, meter Telemetry) *core {
	return &core{tickMs: tickMs, wakeMs: wakeMs, rate: rate, out: out, meter: meter, commands: commandsMax}
}

// clockOwned starts or stops the work.
func (c *core) clockOwned(m *messages.ClockOwned) {
	*c = core{
		tickMs: c.tickMs, wakeMs: c.wakeMs, rate: c.rate, out: c.out, meter: c.meter, commands: commandsMax,
		lastID: c.lastID, nowMs: max(c.nowMs, m.GetMonotonicMs()),
	}
	if m.GetOwned() {
		c.owned, c.again = true, true
		c.clockMs, c.anchorMs = m.GetClockMs(), m.GetMonotonicMs()
		c.tickedMs = c.nowMs
	}
}

// tick lets time pass.
func (c *core) tick(nowMs int64) {
	passed := max(0, nowMs-c.nowMs)
	c.nowMs += passed
	if !c.owned {
		return
	}
	// What was not used is no credit for later: ticks that were late would make a burst.
	c.room = min(c.room+c.rate*passed, c.rate*max(2*c.wakeMs, 1))
	c.proposeTick()
	if len(c.wave.open) > 0 {
		if c.nowMs-c.wave.startedMs < answerWaitMs {
			return
		}
		c.wave = wave{} // its answers are for nobody
		c.again = true
	}
	if c.asked != 0 && c.nowMs-c.askedMs < answerWaitMs {
		return
	}
	since := c.nowMs - c.askedMs
	due := c.deadlineMs != 0 && c.deadlineMs <= c.clock()
	if c.nowMs >= c.holdMs && c.room > 0 && (since >= c.tickMs || since >= c.wakeMs && (c.again || due)) {
		c.ask()
	}
}

// clock is the lease clock. It is never ahead of what replica will stamp on a
// command that is proposed now.
func (c *core) clock() int64 { return c.clockMs + (c.nowMs - c.anchorMs) }

// proposeTick moves the clock of the state at least once a tick, also when nothing
// else does: retention is evaluated there.
func (c *core) proposeTick() {
	since := c.nowMs - c.tickedMs
	if since < c.tickMs || c.ticked != 0 && since < answerWaitMs {
		return
	}
	c.ticked, c.tickedMs = c.nextID(), c.nowMs
	c.out.propose(&messages.Propose{
		RequestId: c.ticked, TimeoutMs: proposalTimeoutMs,
		Commands: []*messages.Command{{Op: &messages.Command_Tick{Tick: &messages.Tick{}}}},
	})
}

func (c *core) ask() {
	c.asked, c.askedMs, c.again = c.nextID(), c.nowMs, false
	c.out.askDue(&messages.DueLeases{
		RequestId: c.asked, ClockMs: c.clock(), Limit: uint32(c.leasesAtOnce()),
	})
}

func (c *core) leasesAtOnce() int { return proposalsMax * c.commands * messages.ExpireLeasesMax }

// due takes apply's answer: oldest first.
func (c *core) due(m *messages.DueLeasesReply) {
	if m.GetRequestId() != c.asked || !c.owned {
		return
	}
	c.asked = 0
	c.deadlineMs = m.GetNextDeadlineMs()
	pairs := m.GetPairs()
	c.room -= 1_000 * int64(len(pairs))
	c.wave = wave{
		open: make(map[uint64]int), startedMs: c.nowMs,
		leases: len(pairs), full: len(pairs) >= c.leasesAtOnce(),
	}
	var commands []*messages.Command
	send := func() {
		if len(commands) > 0 {
			id := c.nextID()
			c.wave.open[id] = len(commands)
			c.out.propose(&messages.Propose{RequestId: id, Commands: commands, TimeoutMs: proposalTimeoutMs})
			commands = nil
		}
	}
	for len(pairs) > 0 {
		n := min(len(pairs), messages.ExpireLeasesMax)
		commands = append(commands, &messages.Command{Op: &messages.Command_ExpireLeases{
			ExpireLeases: &messages.ExpireLeases{Pairs: pairs[:n:n]},
		}})
		pairs = pairs[n:]
		c.wave.sent++
		if len(commands) == c.commands {
			send()
		}
	}
	send()
	for _, step := range m.GetIndexSteps() {
		commands = append(commands, &messages.Command{Op: &messages.Command_StepIndex{StepIndex: step}})
	}
	c.again = len(commands) > 0 // the next step is known when this one has applied
	send()
}

// earliest hears that a lease came about, or was moved, that ends before all that
// are known.
func (c *core) earliest(m *messages.EarliestDeadline) {
	if c.deadlineMs == 0 || m.GetDeadlineMs() < c.deadlineMs {
		c.deadlineMs = m.GetDeadlineMs()
	}
}

// proposed takes answers.
func (c *core) proposed(m *messages.Proposed) {
	if m.GetRequestId() == c.ticked {
		c.ticked = 0 // a tick that failed is followed by the next
		return
	}
	left, ok := c.wave.open[m.GetRequestId()]
	if !ok {
		return
	}
	for _, r := range m.GetResults() {
		if r.GetError() != nil {
			c.wave.failed = true
		}
		if e := r.GetExpireLeases(); e != nil {
			c.wave.expired += int(e.GetExpired())
			c.wave.skipped += int(e.GetSkipped())
			c.wave.keys += e.GetKeysDeleted()
		}
	}
	if left -= len(m.GetResults()); left > 0 {
		c.wave.open[m.GetRequestId()] = left
		return
	}
	if delete(c.wave.open, m.GetRequestId()); len(c.wave.open) == 0 {
		c.waveDone()
	}
}

func (c *core) waveDone() {
	w := c.wave
	c.wave = wave{}
	if w.sent > 0 {
		c.meter.Expired(w.leases, w.expired, w.skipped, w.keys)
	}
	switch {
	case w.failed:
		c.again, c.holdMs = true, c.nowMs+failureWaitMs
		return
	case w.sent == 0:
		return
	case w.keys > uint64(w.sent)*keysPerCommand:
		c.commands = max(1, c.commands/2)
	default:
		c.commands = min(commandsMax, c.commands*2)
	}
	if w.skipped > 0 {
		c.again = true // past the limit of keys, perhaps: look again
	}
	// More was due than one wave takes: go on at once, unless nothing moves, or enough
	// was done for now.
	if w.full && w.expired > 0 && c.room > 0 {
		c.ask()
	} else if w.full {
		c.again = true
	}
}

func (c *core) nextID() uint64 { c.lastID++; return c.lastID }
