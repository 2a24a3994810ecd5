package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Generate makes a run from a seed: how the world is, and what befalls it.
func Generate(seed uint64) (Options, []string) {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 3))}
	opts := Options{Seed: seed, Nodes: 3, Batch: []int{1, 1, 4, 64}[g.rng.IntN(4)]}
	if g.rng.IntN(8) == 0 {
		opts.Nodes = 1
	}
	opts.Config = messages.DefaultClusterConfig()
	if g.rng.IntN(3) == 0 {
		opts.Config.RetentionRevisions = uint64(10 + g.rng.IntN(40))
	}
	g.nodes, g.clients = opts.Nodes, 2+g.rng.IntN(2)
	g.script()
	return opts, g.lines
}

// generator writes a script. It keeps no model of the world: lines that make no sense
// where they come do nothing.
type generator struct {
	rng            *rand.Rand
	lines          []string
	nodes, clients int
	values         int
	names          int
	leases         []string
	holders        []string // "client name"
	watches        []string // "client name"
	joined         int      // nodes that were added
}

func (g *generator) say(format string, args ...any) {
	g.lines = append(g.lines, fmt.Sprintf(format, args...))
}

func (g *generator) node() string { return fmt.Sprintf("n%d", 1+g.rng.IntN(g.nodes)) }

func (g *generator) client() string { return fmt.Sprintf("c%d", 1+g.rng.IntN(g.clients)) }

func (g *generator) key() string { return fmt.Sprintf("k%d", 1+g.rng.IntN(4)) }

func (g *generator) value() string { g.values++; return fmt.Sprintf("v%d", g.values) }

func (g *generator) name(kind string) string {
	g.names++
	return fmt.Sprintf("%s%d", kind, g.names)
}

func (g *generator) pick(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return list[g.rng.IntN(len(list))]
}

// rate is some rate within the bound.
func (g *generator) rate() string {
	return fmt.Sprintf("%.4f", 1+(g.rng.Float64()*2-1)*rho)
}

// startNodes starts all, each with a clock of its own.
func (g *generator) startNodes() {
	g.say("node start all")
	for i := range g.nodes {
		g.say("node clock n%d rate=%s", i+1, g.rate())
	}
}

// openClient opens client i of c1, c2 and so on, with a clock of its own.
func (g *generator) openClient(i int) {
	g.say("client c%d open", i)
	g.say("client c%d rate %s", i, g.rate())
}

func (g *generator) script() {
	g.startNodes()
	for i := range g.clients {
		g.openClient(i + 1)
	}
	g.say("advance 2s")
	for range 50 + g.rng.IntN(100) {
		switch n := g.rng.IntN(100); {
		case n < 60:
			g.work()
		case n < 75:
			g.fault()
		case n < 81:
			g.rarer()
		case n < 87:
			g.indexed()
		}
		g.time()
	}
	g.say("finish")
}

func (g *generator) time() {
	switch n := g.rng.IntN(20); {
	case n < 8:
		g.say("steps %d", 1+g.rng.IntN(60))
	case n < 17:
		g.say("advance %v", time.Duration(1+g.rng.IntN(6))*50*time.Millisecond)
	case n < 19:
		g.say("advance %v", time.Duration(5+g.rng.IntN(15))*100*time.Millisecond)
	default:
		g.say("advance %v", time.Duration(2+g.rng.IntN(5))*time.Second)
	}
}

func (g *generator) work() {
	c := g.client()
	switch n := g.rng.IntN(100); {
	case n < 25:
		g.say("client %s put %s %s &", c, g.key(), g.value())
	case n < 40:
		g.say("client %s get %s &", c, g.key())
	case n < 44:
		g.say("client %s get %s stale=1 &", c, g.key())
	case n < 50:
		g.say("client %s delete %s &", c, g.key())
	case n < 58:
		g.say("client %s swap %s %s &", c, g.key(), g.value())
	case n < 62:
		g.say("client %s pair k1 %s k2 %s &", c, g.value(), g.value())
	case n < 66:
		g.say("client %s put t%d %s ttl=%dms &", c, 1+g.rng.IntN(3), g.value(), 1000+g.rng.IntN(3000))
	case n < 71:
		name := g.name("L")
		g.leases = append(g.leases, name)
		g.say("client %s grant %s ttl=%dms &", c, name, 1000+g.rng.IntN(5000))
	case n < 77:
		g.say("client %s put l%d %s lease=%s &", c, 1+g.rng.IntN(4), g.value(), g.pick(g.leases))
	case n < 83:
		g.say("client %s keep %s &", c, g.pick(g.leases))
	case n < 85:
		g.say("client %s revoke %s &", c, g.pick(g.leases))
	case n < 89:
		name := g.name("H")
		g.leases = append(g.leases, name)
		g.holders = append(g.holders, c+" drop "+name)
		g.say("client %s hold %s ttl=%dms &", c, name, 1000+g.rng.IntN(3000))
	case n < 90:
		g.say("client %s", g.pick(append(g.holders, "c1 drop none")))
	case n < 94:
		name := g.name("W")
		g.watches = append(g.watches, name)
		from := ""
		if g.rng.IntN(3) == 0 {
			from = fmt.Sprintf(" from=%d", 1+g.rng.IntN(20))
		}
		credit := ""
		if g.rng.IntN(2) == 0 {
			credit = fmt.Sprintf(" credit=%d", 1+g.rng.IntN(4))
		}
		g.say("client %s watch %s %s%s%s &", c, name, []string{"k", "l", "t", "k1"}[g.rng.IntN(4)], from, credit)
	case n < 97:
		g.say("client %s %s %s", c, []string{"stall", "unstall"}[g.rng.IntN(2)], g.pick(g.watches))
	case n < 99:
		g.say("client %s compact back=%d &", c, g.rng.IntN(10))
	default:
		g.say("client %s %s", c, []string{"pause", "resume"}[g.rng.IntN(2)])
	}
}

// indexed writes what the index is over, and asks it.
func (g *generator) indexed() {
	c := g.client()
	switch n := g.rng.IntN(20); {
	case n < 11:
		g.say("client %s note j%d %s %d &", c, 1+g.rng.IntN(5), g.value(), g.rng.IntN(3))
	case n < 13:
		g.say("client %s delete j%d &", c, 1+g.rng.IntN(5))
	case n < 16:
		g.say("client %s index by-g j &", c)
	case n < 17:
		g.say("client %s unindex by-g &", c)
	default:
		g.say("client %s lookup by-g %d &", c, g.rng.IntN(3))
	}
}
