package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/consensus/memlog"
	"github.com/concord-kv/concord/messages"
)

// Verb is one thing that a line of a script can say. The first two words of the line
// choose it, or the first and the third for clients.
type Verb struct {
	Name, Args, Doc string
	run             func(w *World, a args) error
}

// args are the words of a line after its verb; words like name=value are named.
type args struct {
	words []string
	named map[string]string
	async bool // the line ends in &: do not wait for the answer
	line  string
}

func (a args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (a args) duration(name string) time.Duration {
	d, _ := time.ParseDuration(a.named[name])
	return d
}

func (a args) number(name string) uint64 {
	n, _ := strconv.ParseUint(a.named[name], 10, 64)
	return n
}

// nodes returns the nodes named; those that do not exist are left out.
func (w *World) named(words []string) (list []*Node) {
	for _, s := range words {
		if s == "all" {
			return w.nodes
		}
		if n := w.node(nodeOf(s)); n != nil {
			list = append(list, n)
		}
	}
	return list
}

func eachNode(f func(*World, *Node)) func(*World, args) error {
	return func(w *World, a args) error {
		for _, n := range w.named(a.words) {
			f(w, n)
		}
		return nil
	}
}

// Verbs are all that a script can say. Lines that name what is not there (any more) do
// nothing: a shrunk script has many.
func Verbs() []Verb {
	return append(append(append(append([]Verb{}, nodeVerbs...), slices.Concat(clientVerbs, recipeVerbs)...), faultVerbs...), slices.Concat(otherVerbs, recipeEndVerbs)...)
}

var nodeVerbs = []Verb{
	{"node start", "NODE...|all", "boots nodes that are down", eachNode(func(_ *World, n *Node) { n.start() })},
	{"node crash", "NODE...|all", "power loss: what was not synced is gone", eachNode(func(_ *World, n *Node) { n.crash() })},
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
		}
		return nil
	}},
	{"fault heal", "", "mends every link between nodes", func(w *World, _ args) error { w.log.Heal(); return nil }},
	{"fault stall", "NODE...", "lets no sync of the disk end", eachNode(func(w *World, n *Node) { w.log.StallDisk(n.id) })},
	{"fault unstall", "NODE...|all", "ends it", eachNode(func(w *World, n *Node) { w.log.ResumeDisk(n.id) })},
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

var otherVerbs = []Verb{
	{"advance", "DURATION", "lets time pass", func(w *World, a args) error {
		d, err := time.ParseDuration(a.word(0))
		if err != nil {
			return err
		}
		w.Advance(d)
		return nil
	}},
	{"steps", "COUNT", "lets so many things happen while time stands still", func(w *World, a args) error {
		n, err := strconv.Atoi(a.word(0))
		if err != nil {
			return err
		}
		for range n {
			if w.Failure() != nil || !w.Step() {
				break
			}
		}
		return nil
	}},
	{"finish", "", "mends everything, waits until all is at rest, and checks what must hold then", func(w *World, _ args) error {
		w.Finish()
		return nil
	}},
	{"expect revision", "N", "the cluster's revision", expecting(func(w *World, a args) (string, string) {
		return fmt.Sprint(w.truth.revision()), a.word(0)
	})},
	{"expect leader", "NODE|none", "who leads", expecting(func(w *World, a args) (string, string) {
		if l := w.Leader(); l != 0 {
			return endpoint(l), a.word(0)
		}
		return "none", a.word(0)
	})},
	{"expect key", "KEY VALUE|absent", "what the cluster has under a key", expecting(func(w *World, a args) (string, string) {
		if r := w.truth.at(a.word(0), w.truth.revision()); r != "" {
			return r.Value(), a.word(1)
		}
		return "absent", a.word(1)
	})},
	{"expect lease", "CLIENT NAME live|dead|gone", "a lease that was granted under a name: dead is past its deadline and not yet expired", expecting(func(w *World, a args) (string, string) {
		c := w.client(a.word(0))
		if c == nil {
			return "no client", a.word(2)
		}
		switch l := w.leases.leases[c.leases[a.word(1)]]; {
		case l == nil:
			return "gone", a.word(2)
		case w.leases.live(l):
			return "live", a.word(2)
		}
		return "dead", a.word(2)
	})},
	{"expect holder", "CLIENT NAME held|lost|none", "what the holder of a lease has been told", expecting(func(w *World, a args) (string, string) {
		if c := w.client(a.word(0)); c != nil {
			for _, h := range c.holders {
				if s := h.session(); h.name == a.word(1) && s != nil {
					if s.Lease().Err() == nil {
						return "held", a.word(2)
					}
					return "lost", a.word(2)
				}
			}
		}
		return "none", a.word(2)
	})},
	{"expect answer", "TEXT", "the answer to the last client line", expecting(func(w *World, a args) (string, string) {
		if w.last == nil {
			return "", strings.Join(a.words, " ")
		}
		return w.last.answer(), strings.TrimPrefix(strings.TrimPrefix(a.line, "expect answer"), " ")
	})},
	{"expect watch", "CLIENT NAME [LINE; LINE...]", "what a watch has delivered since the last look, and how it ended", expecting(func(w *World, a args) (string, string) {
		want := strings.Join(a.words[min(2, len(a.words)):], " ")
		if c := w.client(a.word(0)); c != nil {
			for _, x := range c.watches {
				if x.name == a.word(1) {
					got := strings.Join(x.lines, "; ")
					x.lines = nil
					return got, want
				}
			}
		}
		return "no watch", want
	})},
	{"expect equal", "", "the nodes that are up have applied the same and are in the same state", func(w *World, _ args) error {
		return w.equal()
	}},
}

func expecting(f func(*World, args) (got, want string)) func(*World, args) error {
	return func(w *World, a args) error {
		if got, want := f(w, a); got != want {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	}
}

// Do runs one line of a script. Blank lines and what follows a # are nothing. An
// expectation that is not met, and a line that says nothing known, is a Failure.
func (w *World) Do(line string) {
	line, _, _ = strings.Cut(line, "#")
	line = strings.TrimSpace(line)
	if line == "" {
		return
	}
	w.trace("do %s", line)
	a := args{named: map[string]string{}, line: line}
	for _, s := range strings.Fields(line) {
		if name, value, ok := strings.Cut(s, "="); ok && name != "" && !strings.HasPrefix(line, "expect") {
			a.named[name] = value
		} else if s == "&" {
			a.async = true
		} else {
			a.words = append(a.words, s)
		}
	}
	v, rest := find(a.words)
	if v == nil {
		w.failf("script", "%q is no verb; see help", line)
		return
	}
	a.words = rest
	if err := v.run(w, a); err != nil {
		w.failf("expect", "%s: %v", line, err)
	}
	w.logIdle = false
}

func find(words []string) (*Verb, []string) {
	for _, list := range [][]Verb{nodeVerbs, faultVerbs, otherVerbs, recipeEndVerbs} {
		for i := range list {
			name := strings.Fields(list[i].Name)
			if len(words) >= len(name) && strings.Join(words[:len(name)], " ") == list[i].Name {
				return &list[i], words[len(name):]
			}
		}
	}
	if len(words) >= 3 && words[0] == "client" {
		for _, list := range [][]Verb{clientVerbs, recipeVerbs} {
			for i := range list {
				if list[i].Name == "client "+words[2] {
					return &list[i], append([]string{words[1]}, words[3:]...)
				}
			}
		}
	}
	return nil, nil
}

// Help describes all verbs.
func Help() string {
	var b strings.Builder
	for _, v := range Verbs() {
		name := v.Name
		if what, ok := strings.CutPrefix(name, "client "); ok {
			name = "client CLIENT " + what
		}
		fmt.Fprintf(&b, "%s %s\n    %s\n", name, v.Args, v.Doc)
	}
	return b.String()
}

// onClient runs f for a client that is open; others are passed over.
func onClient(f func(*World, *Client, args) error) func(*World, args) error {
	return func(w *World, a args) error {
		c := w.client(a.word(0))
		if c == nil || c.closed {
			return nil
		}
		a.words = a.words[1:]
		return f(w, c, a)
	}
}

// operation makes a verb's run out of what makes its request.
func operation(f func(c *Client, a args, op *Op) *messages.Operation) func(*World, args) error {
	return onClient(func(w *World, c *Client, a args) error {
		op := &Op{name: strings.TrimSuffix(strings.TrimPrefix(a.line, "client "+c.name+" "), " &"), Key: a.word(0)}
		timeout := a.duration("timeout")
		if timeout == 0 {
			timeout = 5 * time.Second
		}
		request := f(c, a, op)
		if request == nil {
			return nil
		}
		w.last = op
		c.start(op, request, timeout)
		for !a.async && !op.isOver(w) && w.Failure() == nil {
			if !w.Step() {
				w.tick(w.opts.Tick)
			}
		}
		if !a.async {
			w.say("%s %s: %s", c.name, op.name, op.answer())
		}
		return nil
	})
}

func (op *Op) isOver(w *World) bool {
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	return op.over
}

// say adds a line to the transcript.
func (w *World) say(format string, args ...any) {
	w.history.lines = append(w.history.lines, fmt.Sprintf(format, args...))
}

func (c *Client) watchOptions(a args) client.WatchOptions {
	return client.WatchOptions{CreditEvents: uint32(a.number("credit")), ProgressMs: uint32(a.duration("progress").Milliseconds())}
}
