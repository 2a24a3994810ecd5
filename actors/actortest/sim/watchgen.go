package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/concord-kv/concord/messages"
)

// GenerateWatches makes a run from a seed that is about watches: there are many, some of
// clients that know one node only, and nodes fall so far behind under them that they are
// brought up by snapshots, while history is compacted and consumers stand still. It draws
// from a stream of its own, so that Generate makes of its seeds what it always made.
func GenerateWatches(seed uint64) (Options, []string) {
	g := &watchGenerator{generator: generator{rng: rand.New(rand.NewPCG(seed, 5)), nodes: 3, clients: 3}}
	opts := Options{Seed: seed, Nodes: g.nodes, Batch: []int{1, 4, 64}[g.rng.IntN(3)], Config: messages.DefaultClusterConfig()}
	if g.rng.IntN(2) == 0 {
		opts.Config.RetentionRevisions = uint64(5 + g.rng.IntN(20))
	}
	if g.rng.IntN(2) == 0 {
		opts.Config.ConsumerLagMax = uint64(3 + g.rng.IntN(10))
	}
	g.startNodes()
	for i := range g.clients {
		g.openClient(i + 1)
		g.say("client w%d open n%d", i+1, i+1) // watches at this node or not at all
	}
	g.say("advance 2s")
	for range g.nodes {
		g.watch()
	}
	for range 25 + g.rng.IntN(30) {
		switch n := g.rng.IntN(100); {
		case n < 40:
			g.work()
		case n < 55:
			g.watch()
		case n < 65:
			g.consumer()
		case n < 73:
			g.laggard()
		case n < 80:
			g.oneWay()
		case n < 92:
			g.fault()
		}
		g.time()
	}
	g.say("finish")
	return opts, g.lines
}

// watchGenerator is a generator that knows who watches.
type watchGenerator struct {
	generator
	consumers [][2]string // client and name of each watch that watch began
}

// watcher is a client of any kind.
func (g *watchGenerator) watcher() string {
	return fmt.Sprintf("%c%d", "cww"[g.rng.IntN(3)], 1+g.rng.IntN(g.clients))
}

// watch begins one: from now, from what is gone or will be, or from what is yet to come.
func (g *watchGenerator) watch() {
	c, name := g.watcher(), g.name("W")
	g.consumers = append(g.consumers, [2]string{c, name})
	from := []string{"", "", fmt.Sprintf(" from=%d", 1+g.rng.IntN(40))}[g.rng.IntN(3)]
	credit := []string{"", fmt.Sprintf(" credit=%d", 1+g.rng.IntN(4))}[g.rng.IntN(2)]
	g.say("client %s watch %s %s%s%s &", c, name, []string{"k", "k", "l", "t", "k1"}[g.rng.IntN(5)], from, credit)
}

// consumer stops or goes on to take what comes, and history is compacted meanwhile.
func (g *watchGenerator) consumer() {
	x := g.consumers[g.rng.IntN(len(g.consumers))]
	c, name := x[0], x[1]
	g.say("client %s stall %s", c, name)
	g.writes(3 + g.rng.IntN(8))
	if g.rng.IntN(2) == 0 {
		g.say("client %s compact back=%d &", g.client(), g.rng.IntN(3))
		g.time()
	}
	if g.rng.IntN(4) > 0 {
		g.say("client %s unstall %s", c, name)
	}
}

// laggard cuts a node off, has the others drop the log that it lacks, and lets it come
// back before its watches have to leave.
func (g *watchGenerator) laggard() {
	n := g.rng.IntN(g.nodes)
	g.say("node start all")
	g.say("fault partition %s", []string{"n1 | n2 n3", "n2 | n1 n3", "n3 | n1 n2"}[n])
	g.say("advance %v", time.Duration(10+g.rng.IntN(20))*100*time.Millisecond) // it may have led
	g.writes(8 + g.rng.IntN(8))
	g.say("node snapshot all")
	if g.rng.IntN(3) == 0 {
		g.say("client %s compact back=%d &", g.client(), g.rng.IntN(3))
	}
	g.say("advance 200ms")
	g.say("fault heal")
	g.say("advance %v", time.Duration(5+g.rng.IntN(20))*100*time.Millisecond)
}

// oneWay lets a node hear another and not be heard by it.
func (g *watchGenerator) oneWay() {
	n := g.rng.IntN(g.nodes)
	g.say("fault cut n%d n%d", n+1, (n+1+g.rng.IntN(g.nodes-1))%g.nodes+1)
	g.writes(2 + g.rng.IntN(4))
	g.time()
	g.say("fault heal")
}

func (g *watchGenerator) writes(n int) {
	for range n {
		g.say("client %s put %s %s &", g.client(), g.key(), g.value())
		g.say("advance 50ms")
	}
}
