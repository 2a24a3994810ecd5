package apply

import (
	"fmt"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/auth"
)

// Bounds of the work that is not the log's.
const (
	// sweepBudget is how many rows one step of the sweep frees: well under a
	// millisecond.
	sweepBudget = 2_048
	// viewsMax is how many readers may wait for an index that is not applied yet.
	viewsMax = 65_536
	// dueMax bounds one answer to DueLeases.
	dueMax = 10_000
	// spentMax is how many effects may be on their way back from watch.
	spentMax = 4
	// digestEvery is between two places of the log where replicas are compared: the
	// first entry at or after each multiple. Batches differ between replicas, places do
	// not.
	digestEvery = 64
)

// effects is what the core asks its shell to do.
type effects interface {
	view(to any, m *state.GotView)
	committed(m *state.Committed)
	installed(m *state.Installed)
	clockOwner(m *messages.ClockOwner)
	earliestDeadline(m *messages.EarliestDeadline)
	// sweepSoon asks for one call of sweep after the messages that wait now.
	sweepSoon()
}

// core owns the machine. One goroutine calls it.
type core struct {
	machine *state.Machine
	out     effects
	meter   Telemetry

	config *messages.ClusterConfig // that telemetry was told
	auth   *auth.Table             // likewise

	waiting []waiter            // for an index
	spent   chan *state.Effects // that watch has done with
	digests []Digest            // of the batch

	owner [3]uint64 // epoch, replica, nonce that replica was told
	// toldMs is the earliest deadline that expiry knows; 0 for none. told is false
	// until it asks: nobody else wants to hear of deadlines.
	told   bool
	toldMs int64
}

// waiter is a reader of a view at or after an index.
type waiter struct {
	to  any
	id  uint64
	min uint64
}

func newCore(out effects, meter Telemetry) *core {
	return &core{machine: state.New(), out: out, meter: meter, spent: make(chan *state.Effects, spentMax)}
}

// apply applies a batch of the log and sets the results of each entry.
func (c *core) apply(entries []consensus.Entry) {
	for i := range entries {
		e := &messages.Entry{}
		if err := messages.UnmarshalEntry(entries[i].Payload, e); err != nil {
			// Every replica has the same bytes: going on would only hide where they
			// came from.
			panic(fmt.Sprintf("apply: entry %d does not decode: %v", entries[i].Index, err))
		}
		before := c.machine.Applied()
		c.refuseMissingState(e)
		entries[i].Results = c.machine.Apply(entries[i].Index, e)
		c.tellConfig()
		if entries[i].Index/digestEvery != before/digestEvery {
			c.digests = append(c.digests, Digest{entries[i].Index, c.machine.Digest()})
		}
		if len(entries[i].Results) != len(e.GetCommands()) {
			panic(fmt.Sprintf("apply: %d results for the %d commands of entry %d",
				len(entries[i].Results), len(e.GetCommands()), entries[i].Index))
		}
	}
}

// after does what a batch leaves to be done, once its results are on their way.
func (c *core) after(entries int) {
	c.recycle()
	e := c.machine.TakeEffects()
	told := len(e.Events) > 0 || e.CompactRevision != e.CompactedFrom
	if told {
		c.out.committed(&state.Committed{Effects: e, Applied: c.machine.Applied(), Spent: c.giveBack})
	}
	c.meter.Applied(entries, e, c.gauges())
	if !told {
		c.machine.Recycle(e)
	}
	c.digests = nil
	c.tellOwner()
	c.tellDeadline()
	c.releaseViews()
	c.sweep()
}

// giveBack takes effects that watch has done with, on watch's goroutine: as many as there is
// room for.
func (c *core) giveBack(e *state.Effects) {
	select {
	case c.spent <- e:
	default:
	}
}

// recycle gives the machine the memory of effects back that watch has done with. They
// are those of earlier batches, which telemetry has seen.
func (c *core) recycle() {
	for {
		select {
		case e := <-c.spent:
			c.machine.Recycle(e)
		default:
			return
		}
	}
}

// install replaces the machine by one from a snapshot.
func (c *core) install(m *state.Machine) {
	c.machine = m
	m.TakeEffects() // what loading did is no news to anybody
	c.tellConfig()
	c.out.installed(&state.Installed{View: m.View()})
	c.meter.Installed(c.gauges())
	c.tellOwner()
	c.tellDeadline()
	c.releaseViews()
	c.sweep()
}

func (c *core) gauges() Gauges {
	version, _ := c.machine.ApplyVersion()
	return Gauges{
		Stats: c.machine.Stats(), Revision: c.machine.Revision(), ApplyVersion: version,
		CompactRevision: c.machine.CompactRevision(), ClockMs: c.machine.ClockMs(), Digests: c.digests,
	}
}

// sweep frees some of what compaction has left; the rest waits for its next turn,
// so that no batch waits long.
func (c *core) sweep() {
	if c.machine.Sweep(sweepBudget) {
		c.out.sweepSoon()
	}
}

// getView answers with the view as of now, or once an index is applied.
func (c *core) getView(to any, m *state.GetView) {
	if m.MinApplied > c.machine.Applied() {
		if len(c.waiting) >= viewsMax {
			c.out.view(to, &state.GotView{RequestID: m.RequestID})
			return
		}
		c.waiting = append(c.waiting, waiter{to: to, id: m.RequestID, min: m.MinApplied})
		return
	}
	c.out.view(to, &state.GotView{RequestID: m.RequestID, View: c.machine.View()})
}

func (c *core) releaseViews() {
	if len(c.waiting) == 0 {
		return
	}
	kept := c.waiting[:0]
	for _, w := range c.waiting {
		if w.min > c.machine.Applied() {
			kept = append(kept, w)
			continue
		}
		c.out.view(w.to, &state.GotView{RequestID: w.id, View: c.machine.View()})
	}
	clear(c.waiting[len(kept):])
	c.waiting = kept
}

// due answers expiry.
func (c *core) due(m *messages.DueLeases) *messages.DueLeasesReply {
	pairs, next := c.machine.Due(m.GetClockMs(), min(int(m.GetLimit()), dueMax))
	c.told, c.toldMs = true, next
	return &messages.DueLeasesReply{
		RequestId: m.GetRequestId(), Pairs: pairs, NextDeadlineMs: next, IndexSteps: c.machine.IndexSteps(),
	}
}

// tellDeadline tells expiry when a deadline came before the one it waits for: a
// short lease granted after a long one would else end a tick late.
func (c *core) tellDeadline() {
	if !c.told {
		return
	}
	if next := c.machine.EarliestDeadline(); next != 0 && (c.toldMs == 0 || next < c.toldMs) {
		c.toldMs = next
		c.out.earliestDeadline(&messages.EarliestDeadline{DeadlineMs: next})
	}
}

func (c *core) tellConfig() {
	if t := c.machine.Auth(); t != c.auth {
		c.auth = t
		c.meter.Authorized(t)
	}
	config := c.machine.Config()
	if config == c.config || !c.machine.Bootstrapped() {
		return
	}
	c.config = config
	id, incarnation := c.machine.ClusterID()
	c.meter.Configured(id, incarnation, config)
}

// refuseMissingState stops a replica that does not have the state that its cluster began
// with: a claim expects an epoch that some replica had applied, so one that this replica
// has not reached says that it lacks something.
func (c *core) refuseMissingState(e *messages.Entry) {
	for _, cmd := range e.GetCommands() {
		claim := cmd.GetClaimClock()
		if claim == nil {
			continue
		}
		if epoch, _, _ := c.machine.ClockOwner(); claim.GetExpectedEpoch() > epoch {
			panic(fmt.Sprintf("apply: epoch %d is expected and this replica is at %d: it lacks the state that its cluster was restored with; "+
				"restore it with the same backup, floor and incarnation, or add it once the cluster has a snapshot", claim.GetExpectedEpoch(), epoch))
		}
	}
}

func (c *core) tellOwner() {
	var now [3]uint64
	now[0], now[1], now[2] = c.machine.ClockOwner()
	if now != c.owner {
		c.owner = now
		c.out.clockOwner(c.clockOwner())
	}
}

func (c *core) clockOwner() *messages.ClockOwner {
	epoch, replica, nonce := c.machine.ClockOwner()
	return &messages.ClockOwner{AppliedIndex: c.machine.Applied(), Epoch: epoch, ReplicaId: replica, Nonce: nonce}
}
