package sim

import (
	"fmt"
	"strconv"

	"github.com/concord-kv/concord/consensus/memlog"
)

var nodeVerbs = []Verb{
	{"node start", "NODE...|all", "boots nodes that are down", eachNode(func(_ *World, n *Node) { n.start() })},
	{"node crash", "NODE...|all", "power loss: what was not synced is gone", eachNode(func(_ *World, n *Node) { n.crash() })},
	{"node tear", "NODE...|all", "power loss in the middle of a sync: some of what was being written is there", eachNode(func(w *World, n *Node) {
		if n.up {
			w.log.Tear(n.id)
			n.crash()
		}
	})},
	{"node join", "NODE", "boots a node that was added to the cluster, or is to be; its number is the next one", func(w *World, a args) error {
		if id := nodeOf(a.word(0)); id == uint64(len(w.nodes)+1) {
			n := w.addNode(id)
			n.joined = true
			n.start()
		}
		return nil
	}},
	{"node stop", "NODE...|all", "an orderly stop", eachNode(func(_ *World, n *Node) { n.stop() })},
	{"node pause", "NODE...|all", "SIGSTOP: its clock goes on, it does nothing", eachNode(func(w *World, n *Node) {
		if n.up {
			n.paused = true
			w.log.Pause(n.id)
		}
	})},
	{"node resume", "NODE...|all", "SIGCONT", eachNode(func(w *World, n *Node) {
		n.paused = false
		w.log.Resume(n.id)
	})},
	{"node snapshot", "NODE...|all", "saves a snapshot and shortens the log", eachNode(func(w *World, n *Node) {
		if n.up {
			w.log.Snapshot(n.id)
		}
	})},
	{"node elect", "NODE", "lets a node stand for election", eachNode(func(w *World, n *Node) {
		if n.runs() {
			w.log.Elect(n.id)
		}
	})},
	{"node clock", "NODE [rate=F] [wall=DURATION]", "makes a monotonic clock run at F times the right rate, and the wall clock jump", func(w *World, a args) error {
		for _, n := range w.named(a.words) {
			if f, err := strconv.ParseFloat(a.named["rate"], 64); err == nil {
				n.clock.setRate(f)
			}
			n.clock.wallOffset += a.duration("wall")
		}
		return nil
	}},
}

var answers = map[string]memlog.AnswerKind{
	"refused": memlog.Refused, "dropped": memlog.Dropped, "lost": memlog.Lost, "forgotten": memlog.Forgotten,
}

var faultVerbs = []Verb{
	{"fault partition", "NODE... | NODE...", "cuts the links between groups of nodes", func(w *World, a args) error {
		groups := [][]uint64{nil}
		for _, s := range a.words {
			if s == "|" {
				groups = append(groups, nil)
			} else if n := w.node(nodeOf(s)); n != nil {
				groups[len(groups)-1] = append(groups[len(groups)-1], n.id)
			}
		}
		w.log.Partition(groups...)
		return nil
	}},
	{"fault cut", "NODE NODE", "drops everything from the first node to the second", func(w *World, a args) error {
		if l := w.named(a.words); len(l) == 2 && l[0] != l[1] {
			w.log.Cut(l[0].id, l[1].id)
			w.watchStats.Cut += w.watchesAt(l[0].id) + w.watchesAt(l[1].id)
		}
		return nil
	}},
	{"fault heal", "", "mends every link between nodes", func(w *World, _ args) error { w.log.Heal(); return nil }},
	{"fault stall", "NODE...", "lets no sync of the disk end", eachNode(func(w *World, n *Node) { w.log.StallDisk(n.id) })},
	{"fault unstall", "NODE...|all", "ends it", eachNode(func(w *World, n *Node) { w.log.ResumeDisk(n.id) })},
	{"fault full", "NODE...", "leaves no room on a disk: the node ends at its next sync", eachNode(func(w *World, n *Node) { w.log.FillDisk(n.id) })},
	{"fault free", "NODE...|all", "makes room again; the node may then be started", eachNode(func(w *World, n *Node) { w.log.FreeDisk(n.id) })},
	{"fault network", "[loss=F] [double=F] [overtake=F] [delay=TICKS]", "loses, doubles, overtakes and delays messages between nodes; without arguments no more", func(w *World, a args) error {
		p := func(name string) float64 {
			f, _ := strconv.ParseFloat(a.named[name], 64)
			return min(max(f, 0), 0.5)
		}
		w.log.SetNetwork(memlog.Network{
			Loss: p("loss"), Duplicate: p("double"), Reorder: p("overtake"), DelayTicks: int(min(a.number("delay"), 20)),
		})
		return nil
	}},
	{"fault hold", "NODE...", "keeps a node from applying", eachNode(func(w *World, n *Node) { w.log.HoldApply(n.id) })},
	{"fault release", "NODE...|all", "ends it", eachNode(func(w *World, n *Node) { w.log.ReleaseApply(n.id) })},
	{"fault answer", "NODE refused|dropped|lost|forgotten [COUNT]", "decides what becomes of the next proposals", func(w *World, a args) error {
		kind, ok := answers[a.word(1)]
		if !ok {
			return fmt.Errorf("no such answer: %q", a.word(1))
		}
		count, _ := strconv.Atoi(a.word(2))
		for _, n := range w.named(a.words[:1]) {
			for range max(count, 1) {
				if n.up {
					w.log.Answer(n.id, kind)
				}
			}
		}
		return nil
	}},
	{"fault blackhole", "CLIENT NODE|all [up|down]", "holds what passes between a client and nodes, in one direction or both", func(w *World, a args) error {
		for _, n := range w.named([]string{a.word(1)}) {
			if a.word(2) != "down" {
				w.holes[path{a.word(0), n.id, true}] = true
			}
			if a.word(2) != "up" {
				w.holes[path{a.word(0), n.id, false}] = true
			}
		}
		return nil
	}},
	{"fault unhole", "", "ends all blackholes: what was held arrives late", func(w *World, _ args) error { clear(w.holes); return nil }},
	{"fault reset", "CLIENT", "breaks the connections of a client", func(w *World, a args) error {
		w.network.resetClient(a.word(0))
		w.quiet()
		return nil
	}},
}
