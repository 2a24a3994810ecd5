package state_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/statetest"
	"github.com/concord-kv/concord/state/store"
)

// FuzzApply decodes any bytes as a log entry and applies it: no panic, and the
// digest stays the full one. An operation that this build does not know is meant to
// stop it, so such entries are left out.
func FuzzApply(f *testing.F) {
	for _, e := range logOf(1, 200) {
		b, err := proto.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := &messages.Entry{}
		if proto.Unmarshal(data, e) != nil || len(e.Commands) > 50 {
			return
		}
		for _, c := range e.Commands {
			if c.Op == nil || c.GetRaiseApplyVersion().GetVersion() > messages.ApplyVersion || c.GetBootstrap() != nil {
				return
			}
		}
		s := rich(&testing.T{})
		e.Epoch, e.ReplicaId, e.Nonce = s.machine.ClockOwner()
		before := s.machine.Revision()
		results := s.machine.Apply(s.index+1, e)
		for i, r := range results {
			if r == nil || r.Error != nil && r.Answer != nil {
				t.Fatalf("command %d: %v", i, r)
			}
		}
		effects := s.machine.TakeEffects()
		if n := s.machine.Revision() - before; n > 0 && len(effects.Events) < int(n) {
			t.Fatalf("%d revisions, %d events", n, len(effects.Events))
		}
		if s.machine.FullDigest() != s.machine.Digest() {
			t.Fatal("digest")
		}
	})
}

// bytesSource makes a generator's choices from a fuzzer's bytes.
type bytesSource struct{ data []byte }

func (b *bytesSource) Choose(n int) int {
	if len(b.data) == 0 {
		return 0
	}
	x := int(b.data[0])
	b.data = b.data[1:]
	if n > 256 && len(b.data) > 0 {
		x = x<<8 | int(b.data[0])
		b.data = b.data[1:]
	}
	return x % n
}

// FuzzTwin lets a fuzzer look for the sequence on which the machine and its naive
// twin differ.
func FuzzTwin(f *testing.F) {
	for seed := range byte(8) {
		f.Add(bytes.Repeat([]byte{seed, 3 * seed, 17 + seed, 5, 0, 1, 99, seed + 40}, 60))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		source := &bytesSource{data: data}
		p := newPair(quietly{t}, source)
		for _, e := range p.generator.Begin() {
			p.apply(e)
		}
		for range 200 {
			if len(source.data) == 0 {
				break
			}
			p.apply(p.generator.Entry())
			p.disturb()
			p.ask(p.generator.Query())
		}
		p.end()
	})
}

// quietly logs nothing: a fuzzer runs too often.
type quietly struct{ *testing.T }

func (quietly) Logf(string, ...any) {}

// FuzzLoad puts any rows into a whole and undamaged snapshot file. What is loaded
// must hold together.
func FuzzLoad(f *testing.F) {
	t := &testing.T{}
	rows := rowsOf(t, snapshotOf(t, rich(t).machine))
	var all bytes.Buffer
	for _, row := range rows {
		if _, err := protodelim.MarshalTo(&all, row); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(all.Bytes(), true)
	f.Add(all.Bytes()[:all.Len()/2], true)
	f.Fuzz(func(t *testing.T, data []byte, trueDigest bool) {
		in := bytes.NewReader(data)
		var rows []*messages.SnapshotRow
		for len(rows) < 200 {
			row := &messages.SnapshotRow{}
			if protodelim.UnmarshalFrom(in, row) != nil {
				break
			}
			rows = append(rows, row)
		}
		m, err := loadRows(rows)
		if err != nil {
			return
		}
		if m.Digest() != m.FullDigest() {
			t.Fatal("digest")
		}
		m.View().Query(&messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{
			Selector: &messages.Selector{By: &messages.Selector_Prefix{}},
		}}}, state.Now{})
	})
}

// FuzzSnapshotFile loads any bytes as a file.
func FuzzSnapshotFile(f *testing.F) {
	t := &testing.T{}
	f.Add(snapshotOf(t, rich(t).machine))
	f.Add(snapshotOf(t, state.New()))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := state.Load(bytes.NewReader(data)); err == nil && m.Digest() != m.FullDigest() {
			t.Fatal("digest")
		}
	})
}

// FuzzSelector compares the bounds of a selector with what it says, and a list with
// both.
func FuzzSelector(f *testing.F) {
	f.Add([]byte("a"), []byte("b"), uint8(1), []byte("a\xffb"))
	f.Add([]byte("\xff\xff"), []byte{}, uint8(1), []byte("\xff\xff\x00"))
	f.Add([]byte("a"), []byte("a\x00"), uint8(2), []byte("a"))
	f.Fuzz(func(t *testing.T, a, b []byte, kind uint8, key []byte) {
		sel := &messages.Selector{By: &messages.Selector_Key{Key: a}}
		want := bytes.Equal(a, key)
		switch kind % 3 {
		case 1:
			sel.By = &messages.Selector_Prefix{Prefix: a}
			want = bytes.HasPrefix(key, a)
		case 2:
			sel.By = &messages.Selector_Range{Range: &messages.KeyRange{Start: a, End: b}}
			want = bytes.Compare(key, a) >= 0 && (len(b) == 0 || bytes.Compare(key, b) < 0)
		}
		if messages.ValidateSelector("selector", sel) != nil || messages.ValidateKey("key", key) != nil {
			return
		}
		if lo, hi := store.Bounds(sel); store.Contains(lo, hi, string(key)) != want {
			t.Fatalf("%v contains %q: %v", sel, key, !want)
		}
		s := newScript()
		epoch, replica, nonce := s.machine.ClockOwner()
		put := func(k []byte) {
			s.index++
			s.machine.Apply(s.index, &messages.Entry{Epoch: epoch, ReplicaId: replica, Nonce: nonce, Commands: []*messages.Command{
				{Op: &messages.Command_Put{Put: &messages.Put{Key: k}}},
			}})
		}
		put(key)
		for i := range uint16(5) { // neighbours
			put(binary.BigEndian.AppendUint16(bytes.Clone(key[:len(key)/2]), i*1000))
		}
		reply, err := s.machine.View().Query(&messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{Selector: sel}}}, state.Now{})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, r := range reply.GetList().Records {
			found = found || bytes.Equal(r.Key, key)
		}
		if found != want {
			t.Fatalf("list of %v has %q: %v", sel, key, found)
		}
	})
}

// FuzzQuery decodes any bytes as a query and asks it: an answer or a refusal that
// names its code, never a panic.
func FuzzQuery(f *testing.F) {
	g := &statetest.Generator{Source: seeded{rand.New(rand.NewPCG(3, 3))}, Twin: statetest.NewTwin()}
	g.Twin.Revision = 20
	for range 100 {
		b, err := proto.Marshal(g.Query())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	v := rich(&testing.T{}).machine.View()
	f.Fuzz(func(t *testing.T, data []byte) {
		q := &messages.Query{}
		if proto.Unmarshal(data, q) != nil {
			return
		}
		reply, err := v.Query(q, state.Now{ClockMs: 1, WallMs: 1})
		if (reply == nil) == (err == nil) || err != nil && err.Outcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
			t.Fatalf("%v: %v, %v", q, reply, err)
		}
		if _, err := proto.Marshal(reply); err != nil {
			t.Fatal(err)
		}
	})
}
