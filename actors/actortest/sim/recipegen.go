package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/concord-kv/concord/messages"
)

// GenerateRecipes makes a run from a seed in which the clients use the recipes of the
// SDK: drifting clocks, faults of every kind, processes that are paused past their ttl.
func GenerateRecipes(seed uint64) (Options, []string) {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 4)), nodes: 3, clients: 3}
	opts := Options{Seed: seed, Nodes: g.nodes, Batch: []int{1, 4, 64}[g.rng.IntN(3)], Config: messages.DefaultClusterConfig(), Turns: true}
	g.startNodes()
	for i := range g.clients {
		g.openClient(i + 1)
	}
	g.say("advance 2s")
	var names []string
	for range 40 + g.rng.IntN(40) {
		switch n := g.rng.IntN(100); {
		case n < 50:
			names = append(names, g.tour())
		case n < 55 && len(names) > 0:
			g.say("client %s cancel %s", names[0][:2], names[0][3:])
			names = names[1:]
		case n < 75:
			g.fault()
		case n < 88:
			g.stop()
		case n < 91:
			g.say("client %s put %s %s &", g.client(), g.key(), g.value())
		case n < 94:
			g.unreliable()
		case n < 95:
			g.say("client c3 crash") // its holders are replaced when their ttl is over
		}
		g.time()
	}
	g.say("recipes finish")
	return opts, g.lines
}

// unreliable has the network between nodes lose, double, hold up and mix messages, for a
// while.
func (g *generator) unreliable() {
	if g.rng.IntN(3) == 0 {
		g.say("fault network")
		return
	}
	g.say("fault network loss=%.2f double=%.2f overtake=%.2f delay=%d",
		g.rng.Float64()*0.1, g.rng.Float64()*0.2, g.rng.Float64()*0.2, g.rng.IntN(4))
}

// tour has a client use a recipe; it returns the client and the name of the use.
func (g *generator) tour() string {
	c, name := g.client(), g.name("T")
	ttl := time.Duration(1000+g.rng.IntN(3000)) * time.Millisecond
	hold := time.Duration(50+g.rng.IntN(3000)) * time.Millisecond
	more := ""
	if g.rng.IntN(3) == 0 {
		more = " naive=1"
	}
	switch n := g.rng.IntN(20); {
	case n < 10:
		switch g.rng.IntN(6) {
		case 0:
			more += " try=1"
		case 1:
			more += fmt.Sprintf(" within=%dms", 100+g.rng.IntN(2000))
		}
		g.say("client %s lock %s m%d ttl=%v hold=%v%s &", c, name, 1+g.rng.IntN(2), ttl, hold, more)
	case n < 14:
		g.say("client %s campaign %s e1 ttl=%v hold=%v%s &", c, name, ttl, hold, more)
	case n < 18:
		if g.rng.IntN(4) == 0 {
			more += " fail=1"
		}
		g.say("client %s fly %s f1 ttl=%v hold=%v%s &", c, name, ttl, hold, more)
	case n < 19:
		g.say("client %s register %s r%d ttl=%v hold=%v &", c, name, 1+g.rng.IntN(2), ttl, 20*hold)
	default:
		g.say("client %s observe %s e1 ttl=%v &", c, name, ttl)
	}
	return c + " " + name
}

// stop pauses a process, for less or for more than a ttl.
func (g *generator) stop() {
	c := g.client()
	g.say("client %s pause", c)
	g.say("advance %v", time.Duration(2+g.rng.IntN(60))*100*time.Millisecond)
	g.say("client %s resume", c)
	g.say("steps %d", g.rng.IntN(40))
}
