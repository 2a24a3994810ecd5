package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/concord-kv/concord/consensus/memlog"
	"github.com/concord-kv/concord/messages"
)

// Options of a World. Zero values stand for the defaults named.
type Options struct {
	// Seed decides everything random.
	Seed uint64
	// Nodes of the cluster. Default 3.
	Nodes int
	// Tick is the step of time: of the log's timers and of the nodes' clocks. Default
	// 50 ms.
	Tick time.Duration
	// Batch bounds the entries in one Apply. Default 64; 1 compares digests at every
	// index.
	Batch int
	// Config of the cluster. Default messages.DefaultClusterConfig.
	Config *messages.ClusterConfig
	// GRPC lets clients speak gRPC to nodes, over the same network; else the plain
	// codec.
	GRPC bool
	// Trace gets what happens, as text. Default: nobody.
	Trace io.Writer
	// Calm lets everything that can happen do so before time goes on; else the seed
	// leaves some for later.
	Calm bool
}

// Failure is a broken promise.
type Failure struct {
	// Invariant is its name: I1 to I8, P1 to P9, watch-gap-free and so on.
	Invariant string
	Detail    string
	// Step and Time say when it was seen.
	Step int
	Time time.Duration
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s broken at step %d, %v: %s", f.Invariant, f.Step, f.Time, f.Detail)
}

// World is a cluster, its clients and their environment. All of it belongs to the
// goroutine that made it, inside a bubble of testing/synctest.
type World struct {
	opts    Options
	rng     *rand.Rand
	now     time.Duration
	shared  atomic.Int64 // now, for goroutines of clients that wake by themselves
	steps   int
	log     *memlog.Cluster
	network network
	nodes   []*Node
	clients []*Client
	truth   truth
	leases  leaseModel
	recipes recipes
	history history

	choices []choice
	logIdle bool
	logDead bool          // it has panicked
	holes   map[path]bool // paths that swallow bytes
	last    *Op           // of the last client line

	mu      sync.Mutex
	failure *Failure
	stuck   bool // something could not be closed
}

// path is one direction between a client and a node.
type path struct {
	client string
	node   uint64
	up     bool // from client to node
}

// New returns a world whose nodes are down.
func New(opts Options) *World {
	if opts.Nodes == 0 {
		opts.Nodes = 3
	}
	if opts.Tick == 0 {
		opts.Tick = 50 * time.Millisecond
	}
	if opts.Batch == 0 {
		opts.Batch = 64
	}
	w := &World{opts: opts, rng: rand.New(rand.NewPCG(opts.Seed, 1)), holes: map[path]bool{}}
	w.log = memlog.New(memlog.Config{
		Replicas: opts.Nodes, Tick: opts.Tick, ElectionTicks: 15, HeartbeatTicks: 3, ApplyBatchMax: opts.Batch, SnapshotKeep: 5,
	}, rand.New(rand.NewPCG(opts.Seed, 2)))
	w.network.prompt = opts.GRPC
	w.truth.init(w)
	w.leases.init(w)
	w.recipes.init(w)
	for id := range uint64(opts.Nodes) {
		n := &Node{world: w, id: id + 1}
		n.clock.hand = hand{world: w, rate: 1, local: time.Duration(mix(opts.Seed, id)%1000) * time.Second}
		w.nodes = append(w.nodes, n)
	}
	return w
}

// mix is a hash of two numbers (splitmix64's finalizer).
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// failf notes a broken promise; the first counts.
func (w *World) failf(invariant, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = &Failure{Invariant: invariant, Detail: fmt.Sprintf(format, args...), Step: w.steps, Time: w.now}
	}
}

// Failure returns the first broken promise, nil while all are kept.
func (w *World) Failure() *Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

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
	}
	w.network.each(func(c *conn) {
		if c.untold() {
			w.choices = append(w.choices, choice{kind: chooseTell, conn: c})
		}
		if c.sendable() && w.passes(c) {
			w.choices = append(w.choices, choice{kind: chooseConn, conn: c})
		}
	})
	w.network.mu.Lock()
	// Several clients may have come within one step: their order must not be that of
	// their goroutines. Each has one wish at most that is not over.
	slices.SortStableFunc(w.network.dials, func(a, b *dialing) int { return strings.Compare(a.client, b.client) })
	kept := w.network.dials[:0]
	for _, d := range w.network.dials {
		if d.over {
			continue
		}
		kept = append(kept, d)
		if n := w.node(d.node); (!n.up || !n.paused) && !w.holes[path{d.client, d.node, true}] && !w.holes[path{d.client, d.node, false}] {
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
	if w.holes[path{c.client, c.node, !c.atNode}] {
		return false
	}
	if !c.atNode {
		return w.node(c.node).runs()
	}
	cl := w.client(c.client)
	return cl == nil || !cl.paused
}

func (w *World) perform(c choice) {
	switch c.kind {
	case chooseLog:
		w.trace("log step")
		return
	case chooseActor:
		m := c.node.board.at(c.i)
		if m == nil {
			return
		}
		m.handle()
		if m.name != "session" && m.name != "gateway" && (m.name != "node" || c.node.isReady()) {
			w.logIdle = false
			return // nothing of it reaches a goroutine
		}
	case chooseTicker:
		w.trace("tick n%d", c.node.id)
		c.node.clock.due().fire(c.node.clock.read())
		return
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
	if !n.up {
		w.trace("dial %s n%d refused", d.client, d.node)
		d.done <- dialed{err: errRefused}
		return
	}
	w.trace("dial %s n%d", d.client, d.node)
	a, b := w.network.connect(d.client, d.node)
	n.accept(b)
	d.done <- dialed{conn: a}
}

// Settle lets everything happen that can without time.
func (w *World) Settle() {
	const most = 1_000_000
	for range most {
		if !w.Step() {
			return
		}
	}
	w.failf("rest", "the world does not settle")
}

// Advance moves time by d, tick by tick. Unless the world is calm, some of what could
// happen at a tick is left for later ones.
func (w *World) Advance(d time.Duration) {
	for end := w.now + d; w.now < end && w.Failure() == nil; {
		if w.opts.Calm || w.rng.IntN(4) > 0 {
			w.Settle()
		} else {
			for range w.rng.IntN(40) {
				if !w.Step() {
					break
				}
			}
		}
		w.tick(min(w.opts.Tick, end-w.now))
	}
	if w.opts.Calm {
		w.Settle()
	}
}

// tick lets time pass, and nothing else.
func (w *World) tick(d time.Duration) {
	w.now += d
	w.shared.Store(int64(w.now))
	time.Sleep(d) // the bubble's time goes along
	synctest.Wait()
	if !w.logDead {
		w.log.Tick()
	}
	w.logIdle = false
	w.trace("time %v", w.now)
	w.collectResults()
	w.recipes.check()
}

func (w *World) node(id uint64) *Node {
	if id == 0 || id > uint64(len(w.nodes)) {
		return nil
	}
	return w.nodes[id-1]
}

func (w *World) client(name string) *Client {
	for _, c := range w.clients {
		if c.name == name {
			return c
		}
	}
	return nil
}

// Leader returns the node that leads, 0 for none.
func (w *World) Leader() uint64 { return w.log.Leader() }

// Steps and Now say how far the world has come.
func (w *World) Steps() int         { return w.steps }
func (w *World) Now() time.Duration { return w.now }
