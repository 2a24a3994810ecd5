package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/concord-kv/concord/actors/client"
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
	return append(append(append(append([]Verb{}, nodeVerbs...), slices.Concat(clientVerbs, memberVerbs, indexVerbs, recipeVerbs)...), faultVerbs...), slices.Concat(otherVerbs, recipeEndVerbs)...)
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
		for _, list := range [][]Verb{clientVerbs, memberVerbs, indexVerbs, recipeVerbs} {
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
