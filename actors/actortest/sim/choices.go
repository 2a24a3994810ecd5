package sim

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strings"
	"testing/synctest"
)

// choice is something that can happen now.
type choice struct {
	kind   choiceKind
	node   *Node
	client *Client
	conn   *conn
	dial   *dialing
	watch  *watched
	i      int
}

type choiceKind uint8

const (
	chooseLog choiceKind = iota
	chooseActor
	chooseTicker
	chooseConn
	chooseTell
	chooseDial
	chooseTimer
	chooseTurn
	chooseWatch
	chooseAsk
)

// Step lets one thing happen; false if nothing can until time goes on. A panic of what
// runs in the world's goroutine is a broken promise; the log is then left alone.
func (w *World) Step() (stepped bool) {
	defer func() {
		if r := recover(); r != nil {
			w.logDead, stepped = true, true
			w.failf("panic", "%v\n%s", r, debug.Stack())
		}
	}()
	for {
		w.collect()
		if len(w.choices) == 0 {
			return false
		}
		c := w.choices[w.rng.IntN(len(w.choices))]
		if c.kind == chooseLog && !w.log.Step() {
			w.logIdle = true
			continue
		}
		w.steps++
		w.perform(c)
		w.lookAfterNodes()
		for _, n := range w.nodes {
			n.afterStep()
		}
		w.collectResults()
		w.recipes.check()
		return true
	}
}

// collect lists what can happen, in an order that only depends on the run.
func (w *World) collect() {
	w.choices = w.choices[:0]
	if !w.logIdle && !w.logDead {
		// As likely as all the actors of a node: the log has many things to do.
		w.choices = append(w.choices, choice{kind: chooseLog}, choice{kind: chooseLog}, choice{kind: chooseLog})
	}
	for _, n := range w.nodes {
		if !n.runs() {
			continue
		}
		for i := range n.board.count() {
			w.choices = append(w.choices, choice{kind: chooseActor, node: n, i: i})
		}
		if n.clock.due() != nil {
			w.choices = append(w.choices, choice{kind: chooseTicker, node: n})
		}
		if n.log.asks() {
			w.choices = append(w.choices, choice{kind: chooseAsk, node: n})
		}
	}
	w.network.survey(func(c *conn, untold, sendable bool) {
		if untold {
			w.choices = append(w.choices, choice{kind: chooseTell, conn: c})
		}
		if sendable && w.passes(c) {
			w.choices = append(w.choices, choice{kind: chooseConn, conn: c})
		}
	})
	w.network.mu.Lock()
	// Several may have come within one step: their order must not be that of their
	// goroutines. Each has one wish to one node at most that is not over.
	slices.SortStableFunc(w.network.dials, func(a, b *dialing) int {
		return cmp.Or(strings.Compare(a.client, b.client), cmp.Compare(a.node, b.node))
	})
	kept := w.network.dials[:0]
	for _, d := range w.network.dials {
		if d.over {
			continue
		}
		kept = append(kept, d)
		if w.reachable(d) {
			w.choices = append(w.choices, choice{kind: chooseDial, dial: d})
		}
	}
	w.network.dials = kept
	w.network.mu.Unlock()
	for _, c := range w.clients {
		if c.paused || c.closed {
			continue
		}
		for i := range c.clock.waiting() {
			w.choices = append(w.choices, choice{kind: chooseTurn, client: c, i: i})
		}
		if c.clock.isDue(w.now) {
			w.choices = append(w.choices, choice{kind: chooseTimer, client: c})
		}
		for _, x := range c.watches {
			if x.ready() {
				w.choices = append(w.choices, choice{kind: chooseWatch, client: c, watch: x})
			}
		}
	}
}

// passes says whether bytes of c get through to the other end.
func (w *World) passes(c *conn) bool {
	if c.dialer != 0 {
		from, to := c.dialer, c.node
		if c.atNode {
			from, to = to, from
		}
		return w.log.Reaches(from, to) && w.node(to).runs()
	}
	if w.holes[path{c.client, c.node, !c.atNode}] {
		return false
	}
	if !c.atNode {
		return w.node(c.node).runs()
	}
	cl := w.client(c.client)
	return cl == nil || !cl.paused
}

// reachable says whether somebody answers a wish for a connection, be it by a refusal.
func (w *World) reachable(d *dialing) bool {
	n := w.node(d.node)
	if n == nil || n.up && n.paused {
		return n == nil
	}
	if d.from != 0 {
		return w.node(d.from).runs() && w.log.Reaches(d.from, d.node) && w.log.Reaches(d.node, d.from)
	}
	return !w.holes[path{d.client, d.node, true}] && !w.holes[path{d.client, d.node, false}]
}

// quiet are the actors whose work reaches no goroutine but the world's.
var quiet = map[string]bool{"apply": true, "expiry": true, "watch": true}

func (w *World) perform(c choice) {
	switch c.kind {
	case chooseLog:
		w.trace("log step")
		if !w.woke {
			return
		}
		w.woke = false
	case chooseActor:
		m := c.node.board.at(c.i)
		if m == nil {
			return
		}
		m.handle()
		if quiet[m.name] || m.name == "node" && !c.node.isReady() {
			w.logIdle = false
			return // nothing of it reaches a goroutine
		}
	case chooseTicker:
		w.trace("tick n%d", c.node.id)
		c.node.clock.due().fire(c.node.clock.read())
	case chooseAsk:
		w.trace("ask n%d %s", c.node.id, c.node.log.serveAsk())
	case chooseConn:
		moved := c.conn.deliver(w.part)
		w.trace("net %s %d bytes %016x", c.conn.name(), len(moved), hashBytes(moved))
		if cl := w.client(c.conn.client); cl != nil && c.conn.atNode {
			cl.heard()
		}
	case chooseTell:
		w.trace("closed %s", c.conn.name())
		c.conn.tell()
	case chooseDial:
		w.answerDial(c.dial)
	case chooseTimer:
		if t := c.client.clock.take(w.now); t != nil {
			w.trace("timer %s %s", c.client.name, t.label)
			go t.f()
		}
	case chooseTurn:
		w.trace("turn %s %s", c.client.name, c.client.clock.goOn(c.i))
	case chooseWatch:
		c.watch.poll()
	}
	w.logIdle = false
	synctest.Wait()
}

// part chooses how much of a write arrives at once: mostly all of it.
func (w *World) part(size int) int {
	if size > 1 && !w.opts.Calm && w.rng.IntN(20) == 0 {
		return 1 + w.rng.IntN(size-1)
	}
	return size
}

func (w *World) answerDial(d *dialing) {
	w.network.forget(d)
	n := w.node(d.node)
	if n == nil || !n.up || d.from != 0 && n.acceptPeer == nil {
		w.trace("dial %s n%d refused", d.client, d.node)
		d.done <- dialed{err: errRefused}
		return
	}
	w.trace("dial %s n%d", d.client, d.node)
	a, b := w.network.connect(d)
	if d.from != 0 {
		n.servePeer(b)
	} else {
		n.accept(b)
	}
	d.done <- dialed{conn: a}
}
