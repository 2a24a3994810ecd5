package sim

import "time"

func (g *generator) fault() {
	n := g.node()
	switch k := g.rng.IntN(100); {
	case k < 12:
		g.say("node crash %s", n)
		g.time()
		if g.rng.IntN(3) > 0 {
			g.time()
			g.say("node start %s", n)
		}
	case k < 20:
		g.say("node start all")
	case k < 28:
		g.say("node pause %s", n)
		g.time()
		g.say("node resume all")
	case k < 36:
		g.say("node snapshot %s", n)
	case k < 46:
		g.say("node elect %s", n)
	case k < 56:
		g.say("fault partition %s", []string{"n1 | n2 n3", "n2 | n1 n3", "n3 | n1 n2"}[g.rng.IntN(3)])
		g.time()
		g.time()
		if g.rng.IntN(3) > 0 {
			g.say("fault heal")
		}
	case k < 60:
		g.say("fault cut %s %s", n, g.node())
	case k < 66:
		g.say("fault heal")
	case k < 72:
		g.say("fault stall %s", n)
		g.time()
		g.time()
		g.say("fault unstall all")
	case k < 76:
		g.say("fault hold %s", n)
		g.time()
		g.say("fault release all")
	case k < 84:
		g.say("fault answer %s %s %d", n, []string{"refused", "dropped", "lost", "forgotten"}[g.rng.IntN(4)], 1+g.rng.IntN(3))
	case k < 90:
		g.say("fault reset %s", g.client())
	case k < 94:
		// A client whose answers are late, and that is then cut off: its holders must be
		// warned in time.
		c := g.client()
		g.say("fault blackhole %s all down", c)
		g.say("advance %v", time.Duration(2+g.rng.IntN(14))*50*time.Millisecond)
		g.say("fault unhole")
		g.say("steps %d", 30+g.rng.IntN(100))
		g.say("fault blackhole %s all", c)
		g.say("advance %v", time.Duration(10+g.rng.IntN(50))*100*time.Millisecond)
		g.say("fault unhole")
	case k < 96:
		g.say("fault blackhole %s %s %s", g.client(), n, []string{"up", "down", "both"}[g.rng.IntN(3)])
		g.time()
		g.time()
		g.say("fault unhole")
	case k < 98:
		g.say("node clock %s rate=%s wall=%dh", n, g.rate(), g.rng.IntN(100)-50)
	default:
		g.say("node stop %s", n)
		g.time()
		g.say("node start %s", n)
	}
}

// rarer are faults of which a run has one or two.
func (g *generator) rarer() {
	n, c := g.node(), g.client()
	switch k := g.rng.IntN(100); {
	case k < 25:
		g.say("fault network loss=%.2f double=%.2f overtake=%.2f delay=%d",
			g.rng.Float64()*0.1, g.rng.Float64()*0.2, g.rng.Float64()*0.2, g.rng.IntN(4))
	case k < 35:
		g.say("fault network")
	case k < 50:
		g.say("fault stall %s", n)
		g.time()
		g.say("node tear %s", n)
		g.say("fault unstall all")
		g.time()
		g.say("node start %s", n)
	case k < 60:
		g.say("fault full %s", n)
		g.time()
		g.time()
		g.say("fault free all")
		g.say("node start %s", n)
	case k < 64:
		if c != "c1" {
			g.say("client %s crash", c)
		}
	case k < 75:
		g.say("client %s lead %s &", c, n)
	default:
		g.member(c)
	}
}

// member changes the membership: a node comes, without a vote at first or with one, and
// may go again.
func (g *generator) member(c string) {
	if g.joined < 2 && g.nodes > 1 {
		g.joined++
		id := g.nodes + g.joined
		vote := []string{"", " nonvoting=1"}[g.rng.IntN(2)]
		g.say("client %s add n%d%s &", c, id, vote)
		g.time()
		g.say("node join n%d", id)
		g.time()
		if vote != "" && g.rng.IntN(3) > 0 {
			g.time()
			g.say("client %s promote n%d &", c, id)
		}
		return
	}
	g.say("client %s remove n%d &", c, 1+g.rng.IntN(g.nodes+g.joined))
}
