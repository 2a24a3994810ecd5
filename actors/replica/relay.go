package replica

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// Peers passes proposals on to the node of the leader.
type Peers interface {
	// Forward sends m to a node. An error means that it was not sent; nothing is called
	// then. Otherwise each command gets a result by results, or all that have none get
	// the one failure, whose outcome says whether they may have been applied. Both only
	// enqueue, on any goroutine.
	Forward(replicaID uint64, m *messages.Propose,
		results func(first uint32, results []*messages.Result), failed func(*messages.ErrorDetail)) error
}

// FromPeer is a proposal of another node, which takes this one for the leader. If it
// is not, it refuses: a proposal is passed on once. Reply is called like a sender's
// mailbox, once for each command, and must only enqueue.
type FromPeer struct {
	Propose *messages.Propose
	Reply   func(*messages.Proposed)
}

// relayPort is how the core reaches Peers; the shell answers with relayed and
// relayFailed.
type relayPort interface {
	relay(ticket, replicaID uint64, m *messages.Propose) error
}

// relay is a proposal that the leader's node has.
type relay struct {
	from       any
	id         uint64
	leaderID   uint64
	answered   []bool
	left       int
	bytes      int
	deadlineMs int64
}

// relays are what this node has under way at leaders, by ticket.
type relays struct {
	port     relayPort // nil: nothing is passed on
	byTicket map[uint64]*relay
	last     uint64
	commands int
	bytes    int
}

// relayGraceMs is how long after the deadline the leader's answer is waited for: it
// knows whether the command had left its queue.
const relayGraceMs = 250

// passesOn says whether a proposal goes to another node.
func (c *core) passesOn(m *messages.Propose) bool {
	return !c.stopped && !c.leads && c.leaderID != 0 && c.relays.port != nil && !leadersOwn(m.GetCommands()[0])
}

// leadersOwn are commands that only a leader proposes: another one's would be stale.
func leadersOwn(cmd *messages.Command) bool {
	_, report := cmd.GetOp().(*messages.Command_ReportConsumers)
	return internalCommand(cmd) && !report
}

// passOn sends a proposal to the leader's node.
func (c *core) passOn(from any, m *messages.Propose) {
	bytes, n := messages.MessageSize(m), len(m.GetCommands())
	r := &c.relays
	var refusal *messages.Error
	switch {
	case r.commands+n > c.limits.WaitingCommandsMax && r.commands > 0:
		refusal = c.overloaded("commands under way to the leader", c.limits.WaitingCommandsMax)
	case r.bytes+bytes > c.limits.WaitingBytesMax && r.commands > 0:
		refusal = c.overloaded("bytes under way to the leader", c.limits.WaitingBytesMax)
	}
	if refusal == nil {
		r.last++
		if err := r.port.relay(r.last, c.leaderID, m); err != nil {
			refusal = &messages.Error{Detail: messages.DetailOf(err)}
		}
	}
	if refusal != nil {
		c.meter.Refused(refusal.Code(), n)
		c.answerAll(from, m.GetRequestId(), n, refusal.Detail)
		return
	}
	if r.byTicket == nil {
		r.byTicket = map[uint64]*relay{}
	}
	r.byTicket[r.last] = &relay{
		from: from, id: m.GetRequestId(), leaderID: c.leaderID, answered: make([]bool, n), left: n, bytes: bytes,
		deadlineMs: c.now() + timeoutMs(m.GetTimeoutMs()) + relayGraceMs,
	}
	r.commands += n
	r.bytes += bytes
}

// relayed brings results from the leader's node.
func (c *core) relayed(ticket uint64, first uint32, results []*messages.Result) {
	r := c.relays.byTicket[ticket]
	if r == nil {
		return
	}
	for i, result := range results {
		at := int(first) + i
		if at >= len(r.answered) || r.answered[at] {
			return // no answer of a leader of ours; the deadline ends it
		}
		r.answered[at] = true
		r.left--
		results[i] = asSeenFromHere(result)
	}
	c.out.proposed(r.from, &messages.Proposed{RequestId: r.id, First: first, Results: results})
	if r.left == 0 {
		c.forgetRelay(ticket)
	}
}

// asSeenFromHere turns what is true of the leader's node into what is true of this
// one: it is not this node that stops, and asking it again is right.
func asSeenFromHere(r *messages.Result) *messages.Result {
	switch e := r.GetError(); e.GetCode() {
	case messages.Code_CODE_NOT_LEADER, messages.Code_CODE_NODE_STOPPING:
		d := proto.CloneOf(e)
		d.Code, d.Message, d.RetryAfterMs = messages.Code_CODE_NO_LEADER, "the leader changes", noLeaderRetryMs/4
		return &messages.Result{Error: d}
	}
	return r
}

// relayFailed ends what has no result.
func (c *core) relayFailed(ticket uint64, detail *messages.ErrorDetail) {
	r := c.relays.byTicket[ticket]
	if r == nil {
		return
	}
	c.forgetRelay(ticket)
	failed := &messages.Result{Error: detail}
	for at := 0; at < len(r.answered); {
		if r.answered[at] {
			at++
			continue
		}
		first, results := at, []*messages.Result(nil)
		for ; at < len(r.answered) && !r.answered[at]; at++ {
			results = append(results, failed)
		}
		c.out.proposed(r.from, &messages.Proposed{RequestId: r.id, First: uint32(first), Results: results})
	}
}

func (c *core) forgetRelay(ticket uint64) {
	r := c.relays.byTicket[ticket]
	delete(c.relays.byTicket, ticket)
	c.relays.commands -= len(r.answered)
	c.relays.bytes -= r.bytes
}

// endRelays ends, in order, those that over selects.
func (c *core) endRelays(over func(*relay) bool, detail *messages.ErrorDetail) {
	for _, ticket := range slices.Sorted(maps.Keys(c.relays.byTicket)) {
		if over(c.relays.byTicket[ticket]) {
			c.relayFailed(ticket, detail)
		}
	}
}

// endRelaysOfOthers: another node leads, so whoever led will hardly answer. What it
// had may be applied.
func (c *core) endRelaysOfOthers() {
	if c.leaderID == 0 || len(c.relays.byTicket) == 0 {
		return
	}
	c.endRelays(func(r *relay) bool { return r.leaderID != c.leaderID },
		messages.UnknownOutcome(messages.Code_CODE_NO_LEADER, "the leader changed while the command was under way").Detail)
}

func (c *core) expireRelays(nowMs int64) {
	if len(c.relays.byTicket) > 0 {
		c.endRelays(func(r *relay) bool { return r.deadlineMs <= nowMs }, timedOut(true))
	}
}
