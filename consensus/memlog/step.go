package memlog

import "slices"

// An enabled thing, as a closure, is cheap enough: a simulation's cost is in its
// actors.
type event func()

// Step lets one enabled thing happen, chosen by the cluster's source, and returns
// false if nothing is enabled: then only time, or the caller, can go on.
func (c *Cluster) Step() bool {
	if c.inStep {
		panic("memlog: Step called from inside a callback")
	}
	events := c.enabled()
	if len(events) == 0 {
		return false
	}
	c.inStep = true
	events[c.rng.IntN(len(events))]()
	c.inStep = false
	c.Check()
	return true
}

// settleMax bounds Settle: more steps at one instant mean a loop between callbacks.
const settleMax = 1_000_000

// Settle steps until nothing is enabled.
func (c *Cluster) Settle() {
	for range settleMax {
		if !c.Step() {
			return
		}
	}
	panic("memlog: the cluster does not settle")
}

// Tick moves time by one tick: timers run, delayed messages come nearer, deadlines
// pass.
func (c *Cluster) Tick() {
	if c.inStep {
		panic("memlog: Tick called from inside a callback")
	}
	c.now++
	c.inStep = true
	for _, id := range c.ids {
		n := c.nodes[id]
		if !n.up || n.paused {
			continue
		}
		n.replica.expire()
		if n.up && n.syncing {
			n.owedTicks++
		} else if n.up {
			n.tick()
			n.flush()
		}
	}
	c.inStep = false
	c.Check()
}

// Advance ticks n times and settles after each.
func (c *Cluster) Advance(n int) {
	for range n {
		c.Tick()
		c.Settle()
	}
}

// Until settles and advances until cond holds, for at most limit ticks. It returns
// whether cond holds.
func (c *Cluster) Until(limit int, cond func() bool) bool {
	c.Settle()
	for range limit {
		if cond() {
			return true
		}
		c.Advance(1)
	}
	return cond()
}

// enabled lists what can happen now, in an order that only depends on the run.
func (c *Cluster) enabled() []event {
	var events []event
	for _, l := range c.order {
		q := c.links[l]
		if len(q) == 0 || q[0].arrives > c.now {
			continue
		}
		to := c.nodes[l.to]
		if !to.up || c.cut[l] {
			events = append(events, func() { c.links[l] = q[1:] }) // into the void
		} else if to.handles() {
			events = append(events, func() {
				c.links[l] = q[1:]
				to.receive(q[0])
				to.flush()
			})
		}
	}
	for _, id := range c.ids {
		events = append(events, c.nodes[id].enabled()...)
	}
	return events
}

// send puts a message on its link, as the network has it.
func (c *Cluster) send(m *message) {
	l := link{m.from, m.to}
	if c.nodes[m.to] == nil || c.cut[l] || c.happens(c.net.Loss) {
		return
	}
	c.travel(l, m)
	if m.kind != msgPropose && c.happens(c.net.Duplicate) {
		again := *m
		c.travel(l, &again)
	}
}

// happens draws from the source only where there is a choice: a network that does not
// fail changes nothing in a run.
func (c *Cluster) happens(p float64) bool { return p > 0 && c.rng.Float64() < p }

// travel queues a message: last, or before others of its link.
func (c *Cluster) travel(l link, m *message) {
	q, known := c.links[l]
	m.arrives = c.now
	if c.net.DelayTicks > 0 {
		m.arrives += c.rng.IntN(c.net.DelayTicks + 1)
	}
	at := len(q)
	if at > 0 && c.happens(c.net.Reorder) {
		at = c.rng.IntN(at)
		m.arrives = min(m.arrives, q[at].arrives)
	}
	if at > 0 {
		m.arrives = max(m.arrives, q[at-1].arrives)
	}
	c.links[l] = slices.Insert(slices.Clip(q), at, m)
	if !known {
		i := 0
		for i < len(c.order) && (c.order[i].from < l.from || c.order[i].from == l.from && c.order[i].to < l.to) {
			i++
		}
		c.order = slices.Insert(c.order, i, l)
	}
}
