package state_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/statetest"
)

// steps is the number of log entries in one sequence.
const steps = 60

// TestTwin runs the machine beside a naive one on random sequences of commands.
// After each entry their results, events and answers to queries are the same, and so
// are the digests of two machines that were treated differently: one is viewed,
// swept, saved and loaded at random places and gets whole entries, the other gets
// one command at a time and is left alone.
//
// CONCORD_TWIN_SEQUENCES sets the number of sequences. A failure prints the rapid
// seed and the entries.
func TestTwin(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv("CONCORD_TWIN_SEQUENCES")); err == nil {
		for done := 0; done < n; done += 100 {
			t.Run(fmt.Sprint(done), func(t *testing.T) { rapid.Check(t, twinSequence) })
		}
		return
	}
	for i := range 10 { // of rapid's 100 sequences
		t.Run(fmt.Sprint(i), func(t *testing.T) { rapid.Check(t, twinSequence) })
	}
}

type drawn struct{ t *rapid.T }

func (d drawn) Choose(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "") }

func twinSequence(t *rapid.T) {
	p := newPair(t, drawn{t})
	for _, e := range p.generator.Begin() {
		p.apply(e)
	}
	for range steps {
		p.apply(p.generator.Entry())
		p.disturb()
		for range 3 {
			p.ask(p.generator.Query())
		}
	}
	p.end()
}

// pair is the machines of one sequence.
type pair struct {
	t         fataler
	choose    statetest.Source
	generator *statetest.Generator
	twin      *statetest.Twin
	machine   *state.Machine // viewed, swept, saved and loaded
	quiet     *state.Machine // one command at a time
	index     uint64
	quietly   uint64
	events    int // of the twin's that were compared
	old       *state.View
	saved     []byte // of old, when it was taken
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

func newPair(t fataler, choose statetest.Source) *pair {
	twin := statetest.NewTwin()
	return &pair{
		t: t, choose: choose, twin: twin, machine: state.New(), quiet: state.New(),
		generator: &statetest.Generator{Source: choose, Twin: twin, Big: choose.Choose(4) == 3},
	}
}

func (p *pair) apply(e *messages.Entry) {
	p.t.Helper()
	p.t.Logf("entry %d: %v", p.index+1, short{e})
	want := p.twin.Apply(proto.Clone(e).(*messages.Entry))
	p.index++
	got := p.machine.Apply(p.index, proto.Clone(e).(*messages.Entry))
	for i := range want {
		p.same(fmt.Sprintf("result %d", i), got[i], want[i])
	}
	for i, c := range e.Commands {
		p.quietly++
		alone := proto.Clone(e).(*messages.Entry)
		alone.Commands = []*messages.Command{proto.Clone(c).(*messages.Command)}
		p.same("result alone", p.quiet.Apply(p.quietly, alone)[0], want[i])
	}
	p.compareEvents()
	p.compareDue()
	if d := p.machine.Digest(); d != p.quiet.Digest() || d != p.machine.FullDigest() {
		p.t.Fatalf("digest %x, quietly %x, full %x", d, p.quiet.Digest(), p.machine.FullDigest())
	}
}

func (p *pair) compareEvents() {
	p.t.Helper()
	effects := p.machine.TakeEffects()
	p.quiet.TakeEffects()
	want := p.twin.Log[p.events:]
	p.events = len(p.twin.Log)
	if len(effects.Events) != len(want) {
		p.t.Fatalf("%d events, want %d", len(effects.Events), len(want))
	}
	for i, e := range effects.Events {
		p.same("event", e.Proto(false, true), want[i])
	}
	if effects.ToRevision != p.twin.Revision || effects.CompactRevision != p.twin.Compacted {
		p.t.Fatalf("effects end at %d, compacted %d", effects.ToRevision, effects.CompactRevision)
	}
	p.machine.Recycle(effects)
}

// compareDue compares what the leader would end next with a sorted list.
func (p *pair) compareDue() {
	p.t.Helper()
	leases := slices.SortedFunc(maps.Values(p.twin.Leases), func(a, b *statetest.Lease) int {
		return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(a.ID, b.ID))
	})
	at, limit := p.twin.Clock+int64(p.choose.Choose(2000)), p.choose.Choose(4)
	var want []string
	next := int64(0)
	for _, l := range leases {
		if l.Deadline > at || len(want) == limit {
			next = l.Deadline
			break
		}
		want = append(want, fmt.Sprintf("%d:%d", l.ID, l.Renewals))
	}
	pairs, gotNext := p.machine.Due(at, limit)
	var got []string
	for _, d := range pairs {
		got = append(got, fmt.Sprintf("%d:%d", d.LeaseId, d.Renewals))
	}
	if !slices.Equal(got, want) || gotNext != next {
		p.t.Fatalf("due at %d, limit %d: %v next %d, want %v next %d", at, limit, got, gotNext, want, next)
	}
}

// disturb does to the machine what must leave no trace.
func (p *pair) disturb() {
	p.t.Helper()
	switch p.choose.Choose(8) {
	case 0:
		p.machine.Sweep(p.choose.Choose(20))
	case 1, 2:
		p.machine.View()
	case 3:
		if p.old == nil {
			p.old = p.machine.View()
			p.saved = p.save(p.old)
		}
	case 4:
		m, err := state.Load(bytes.NewReader(p.save(p.machine.View())))
		if err != nil {
			p.t.Fatalf("load: %v", err)
		}
		if d := m.FullDigest(); d != p.machine.Digest() || d != m.Digest() {
			p.t.Fatalf("loaded digest %x %x, want %x", m.Digest(), d, p.machine.Digest())
		}
		p.machine = m
	}
}

func (p *pair) save(v *state.View) []byte {
	p.t.Helper()
	var b bytes.Buffer
	if err := v.Save(&b); err != nil {
		p.t.Fatalf("save: %v", err)
	}
	return b.Bytes()
}

func (p *pair) ask(q *messages.Query) {
	p.t.Helper()
	want, wantErr := p.twin.Query(q)
	got, err := p.machine.View().Query(q, state.Now{})
	if (err == nil) != (wantErr == nil) {
		p.t.Fatalf("query %v\n got %v, %v\nwant %v, %v", q, got, err, want, wantErr)
	}
	if err != nil {
		p.same(fmt.Sprintf("refusal of %v", q), err.Detail, wantErr.Detail)
		return
	}
	if s := got.GetStatus(); s != nil {
		s.AppliedIndex, s.Digest = 0, 0
	}
	p.same(fmt.Sprintf("answer to %v", q), got, want)
}

// end checks that an old view still shows what it showed, and everything once more.
func (p *pair) end() {
	p.t.Helper()
	if p.old != nil && !bytes.Equal(p.save(p.old), p.saved) {
		p.t.Fatalf("a view has changed")
	}
	for p.machine.Sweep(100) {
	}
	p.ask(&messages.Query{Query: &messages.Query_Status{Status: &messages.StatusRequest{}}})
	if d := p.machine.FullDigest(); d != p.quiet.FullDigest() {
		p.t.Fatalf("full digests differ at the end")
	}
}

func (p *pair) same(what string, got, want proto.Message) {
	p.t.Helper()
	got, want = withoutText(got), withoutText(want)
	if !proto.Equal(got, want) {
		p.t.Fatalf("%s:\n got %v\nwant %v", what, short{got}, short{want})
	}
}

// withoutText returns a copy without the texts of errors: they are for people.
func withoutText(m proto.Message) proto.Message {
	m = proto.Clone(m)
	clearText := func(r *messages.Result) {
		if r.GetError() != nil {
			r.Error.Message = ""
		}
	}
	switch m := m.(type) {
	case *messages.ErrorDetail:
		m.Message = ""
	case *messages.Result:
		clearText(m)
		clearText(m.GetResolveIdempotency().GetResult())
	}
	return m
}

// short prints a message with long values cut.
type short struct{ proto.Message }

func (s short) String() string {
	text := prototext.MarshalOptions{}.Format(s.Message)
	const most = 2000
	if len(text) > most {
		return text[:most/2] + " ... " + text[len(text)-most/2:]
	}
	return text
}
