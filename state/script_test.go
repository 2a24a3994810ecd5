package state_test

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata answer into them")

// TestScripts runs the scripts in testdata. They read as the specification:
//
//	put /a 1 lease=7 -> rev 1
//
// is a command and its whole answer. Lines that begin with white space belong to the
// command before them, whose answer then stands in the last of them. # begins a
// comment. After each line the incremental digest must be the full one.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newScript()
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	var pending []string
	number := 0
	flush := func() {
		if len(pending) == 0 {
			return
		}
		command, want, _ := strings.Cut(strings.Join(pending, "\n"), " -> ")
		got := s.run(strings.TrimRight(command, " \n"))
		if !*rewrite && got != strings.TrimSpace(want) {
			t.Errorf("%s:%d: %s\n got %s\nwant %s", file, number, command, got, strings.TrimSpace(want))
		}
		if d := s.machine.Digest(); d != s.machine.FullDigest() {
			t.Fatalf("%s:%d: digest %x, full %x", file, number, d, s.machine.FullDigest())
		}
		out.WriteString(strings.TrimRight(command, " \n"))
		if got != "" {
			out.WriteString(" -> " + got)
		}
		out.WriteString("\n")
		pending = nil
	}
	for lines.Scan() {
		number++
		line := strings.TrimRight(lines.Text(), " ")
		switch {
		case line == "" || line[0] == '#':
			flush()
			out.WriteString(line + "\n")
		case line[0] == ' ' || line[0] == '\t':
			pending = append(pending, line)
		default:
			flush()
			pending = []string{line}
		}
	}
	flush()
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// script is a machine and the little that a command line leaves out.
type script struct {
	machine    *state.Machine
	index      uint64
	nowMs      int64
	stale      bool // stamp as the owner before
	claims     uint64
	lastEvents string
	as         string // who asks; "" is nobody
	verbs      map[string]func(*line) string
}

// newScript returns a bootstrapped machine whose clock has an owner.
func newScript() *script {
	s := &script{machine: state.New()}
	s.verbs = s.table()
	maps.Copy(s.verbs, s.authTable())
	s.run("bootstrap")
	s.run("claim")
	return s
}

func (s *script) run(command string) string {
	l := parse(command)
	verb, ok := s.verbs[l.verb]
	if !ok {
		return "no such verb: " + l.verb
	}
	s.as = l.option("as", "")
	answer := verb(l)
	if l.bad != "" {
		return "bad line: " + l.bad
	}
	return answer
}

// apply sends one command through the log and returns its result.
func (s *script) apply(l *line, c *messages.Command) *messages.Result {
	epoch, replica, nonce := s.machine.ClockOwner()
	if s.stale {
		epoch, nonce = epoch-1, nonce-1
	}
	s.index++
	c.StampMs = s.nowMs
	c.Trusted = l.flags["trusted"]
	c.Principal, c.UserId = s.as, s.machine.Auth().User(s.as).GetId()
	if n := l.number("session", 0); n != 0 {
		c.SessionId, c.Sequence, c.Acknowledged = n, l.number("n", 1), l.number("ack", 0)
	}
	if key := l.option("idem", ""); key != "" {
		c.IdempotencyKey = key
		hash := [32]byte{}
		copy(hash[:], l.option("hash", "h"))
		c.RequestHash = hash[:]
	}
	r := s.machine.Apply(s.index, &messages.Entry{Epoch: epoch, ReplicaId: replica, Nonce: nonce, Commands: []*messages.Command{c}})[0]
	s.lastEvents = formatEvents(s.machine.TakeEffects())
	return r
}

func (s *script) query(q *messages.Query) (*messages.QueryReply, string) {
	reply, err := s.machine.View().QueryAs(s.rights(), q, state.Now{})
	if err != nil {
		return nil, formatError(err.Detail)
	}
	return reply, ""
}

// line is a command taken apart: a verb, words, and name=value options.
type line struct {
	verb    string
	words   []string
	options map[string]string
	flags   map[string]bool
	body    []*line // the indented lines
	bad     string
}

// flagWords are options without a value.
var flagWords = map[string]bool{
	"prev": true, "ignore_value": true, "ignore_lease": true, "keys_only": true, "count_only": true, "descending": true,
	"newest_first": true, "fence": true, "anonymous": true, "keys": true, "inactive": true,
	"trusted": true, "read": true, "write": true, "attach": true, "admin": true, "no_password": true,
}

func parse(text string) *line {
	first, rest, _ := strings.Cut(text, "\n")
	l := parseWords(first)
	for body := range strings.SplitSeq(rest, "\n") {
		if strings.TrimSpace(body) != "" {
			l.body = append(l.body, parseWords(strings.TrimSpace(body)))
		}
	}
	return l
}

func parseWords(text string) *line {
	l := &line{options: map[string]string{}, flags: map[string]bool{}}
	for i, word := range split(text) {
		name, value, isOption := strings.Cut(word, "=")
		switch {
		case i == 0:
			l.verb = word
		case flagWords[word]:
			l.flags[word] = true
		case isOption && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == "":
			l.options[name] = unquote(value)
		default:
			l.words = append(l.words, unquote(word))
		}
	}
	return l
}

// split cuts at spaces, except within single quotes.
func split(text string) (words []string) {
	quoted := false
	word := ""
	for _, r := range text + " " {
		switch {
		case r == '\'':
			quoted = !quoted
			word += "'"
		case r == ' ' && !quoted:
			if word != "" {
				words = append(words, word)
			}
			word = ""
		default:
			word += string(r)
		}
	}
	return words
}

// unquote takes the quotes off, and turns \xNN into the byte and @N into N bytes.
func unquote(word string) string {
	word = strings.Trim(word, "'")
	if n := 0; strings.HasPrefix(word, "@") {
		if _, err := fmt.Sscanf(word, "@%d", &n); err == nil {
			return strings.Repeat("x", n)
		}
	}
	for i := strings.Index(word, `\x`); i >= 0; i = strings.Index(word, `\x`) {
		var b byte
		fmt.Sscanf(word[i+2:i+4], "%02x", &b)
		word = word[:i] + string([]byte{b}) + word[i+4:]
	}
	return word
}

func (l *line) word(i int) string {
	if i >= len(l.words) {
		l.bad = fmt.Sprintf("%s needs %d words", l.verb, i+1)
		return ""
	}
	return l.words[i]
}

func (l *line) option(name, missing string) string {
	if v, ok := l.options[name]; ok {
		return v
	}
	return missing
}

func (l *line) number(name string, missing uint64) uint64 {
	v, ok := l.options[name]
	if !ok {
		return missing
	}
	return l.parseNumber(v)
}

func (l *line) parseNumber(v string) uint64 {
	var n uint64
	if v == "-1" {
		return ^uint64(0)
	}
	if _, err := fmt.Sscan(v, &n); err != nil {
		l.bad = fmt.Sprintf("%q is no number", v)
	}
	return n
}

func (l *line) millis(v string) int64 {
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		l.bad = err.Error()
	}
	return d.Milliseconds()
}

// selector is key, prefix= or range=a..b.
func (l *line) selector(word int) *messages.Selector {
	if p, ok := l.options["prefix"]; ok {
		return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(p)}}
	}
	if r, ok := l.options["range"]; ok {
		start, end, _ := strings.Cut(r, "..")
		return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte(start), End: []byte(end)}}}
	}
	return &messages.Selector{By: &messages.Selector_Key{Key: []byte(l.word(word))}}
}

func (l *line) metadata() (m []*messages.MetadataEntry) {
	for pair := range strings.SplitSeq(l.options["meta"], ",") {
		if name, value, ok := strings.Cut(pair, ":"); ok {
			m = append(m, &messages.MetadataEntry{Name: name, Value: []byte(unquote(value))})
		}
	}
	return m
}

func (l *line) extractor() *messages.Extractor {
	switch {
	case l.options["field"] != "":
		return &messages.Extractor{By: &messages.Extractor_Field{Field: l.options["field"]}}
	case l.options["path"] != "":
		return &messages.Extractor{By: &messages.Extractor_Path_{Path: &messages.Extractor_Path{Names: strings.Split(l.options["path"], ".")}}}
	case l.options["element"] != "":
		return &messages.Extractor{By: &messages.Extractor_Element{Element: uint32(l.number("element", 0))}}
	}
	return &messages.Extractor{By: &messages.Extractor_Identity{Identity: true}}
}
