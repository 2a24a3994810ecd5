package store

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/concord-kv/concord/messages"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

var (
	someKeys     = []string{"a", "a\x00", "ab", "abc", "b", "b\xff", "b\xff\xff", "b\xff\xffz", "c", "\xff", "\xff\xff"}
	somePrefixes = []string{"", "a", "ab", "b", "b\xff", "b\xff\xff", "\xff"}
)

// pair drives a store and its model by the same steps.
type pair struct {
	s *Store
	m *model
	n int
}

// put applies one event and checks what it answers.
func (p *pair) put(t *rapid.T, key string, value string, op uint32, del bool) {
	mod := p.m.rev
	prev := p.m.get(key, math.MaxUint64)
	f := Fields{Key: key, Mod: mod, OpIndex: op, Cause: messages.EventCause_EVENT_CAUSE_WRITTEN}
	switch {
	case del:
		f.Tombstone, f.Cause = true, messages.EventCause_EVENT_CAUSE_EXPIRED
		f.Lease = uint64(len(value))
	case prev != "":
		f.Value, f.Create, f.Version = value, prev.Create(), prev.Version()+1
	default:
		f.Value, f.Version = value, 1
	}
	r := Make(f)
	p.m.events = append(p.m.events, r)
	if got := p.s.Put(r); got != prev {
		t.Fatalf("put of %s replaced %s, want %s", showRec(r), showRec(got), showRec(prev))
	}
}

// revision applies 1 to 5 events as one revision; ops that a delete has nothing to
// do for become puts.
func (p *pair) revision(t *rapid.T) {
	p.m.rev++
	for op := range rapid.SampledFrom([]int{1, 1, 1, 1, 2, 3, 5}).Draw(t, "ops") {
		key := rapid.SampledFrom(someKeys).Draw(t, "key")
		del := rapid.Bool().Draw(t, "delete") && p.m.get(key, math.MaxUint64) != ""
		p.n++
		p.put(t, key, fmt.Sprint("v", p.n), uint32(op), del)
	}
}

func (p *pair) compact(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "protect") == 0 {
		var list []Protected
		for _, prefix := range somePrefixes {
			if rapid.IntRange(0, 4).Draw(t, "protected "+prefix) > 0 {
				continue
			}
			floor := p.m.compacted
			for _, old := range p.m.protected {
				if old.Prefix == prefix {
					floor = old.Floor
				}
			}
			list = append(list, Protected{prefix, floor})
		}
		p.m.protected = list
	}
	c := rapid.Uint64Range(0, p.m.rev).Draw(t, "c")
	p.m.compacted = max(p.m.compacted, c)
	list := slices.Clone(p.m.protected)
	slices.Reverse(list)
	p.s.Compact(c, list)
}

func (p *pair) reload(t *rapid.T) {
	s, err := reload(p.s.View())
	if err != nil {
		t.Fatal(err)
	}
	if p.s.Digest() != s.Digest() {
		t.Fatalf("digest %x after loading, %x before", s.Digest(), p.s.Digest())
	}
	p.s = s
}

func reload(v *View) (*Store, error) {
	l, err := NewLoader(v.Revision(), v.Compacted(), v.protected)
	if err != nil {
		return nil, err
	}
	v.Rows(func(row *messages.SnapshotRow) bool {
		var raw []byte
		if raw, err = proto.Marshal(row); err != nil {
			return false
		}
		read := &messages.SnapshotRow{}
		if err = proto.Unmarshal(raw, read); err != nil {
			return false
		}
		err = l.Row(read)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return l.Finish()
}

// check compares everything that can be read from v with the model.
func check(t *rapid.T, v *View, m *model) {
	if v.Revision() != m.rev || v.Compacted() != m.compacted || v.Keys() != len(m.list("", "", m.rev)) ||
		v.Events() != len(m.changes(m.compacted, math.MaxUint32)) {
		t.Fatalf("revision %d, compacted %d, keys %d, events %d", v.Revision(), v.Compacted(), v.Keys(), v.Events())
	}
	if v.Digest() != m.digest() || v.FullDigest() != m.digest() {
		t.Fatalf("digest %x, full %x, want %x", v.Digest(), v.FullDigest(), m.digest())
	}
	if v.LogicalBytes() != m.bytes() {
		t.Fatalf("logical bytes %d, want %d", v.LogicalBytes(), m.bytes())
	}
	checkChanges(t, v, m)
	for range 8 {
		checkList(t, v, m)
	}
	for _, key := range someKeys {
		checkKey(t, v, m, key)
	}
}

func checkChanges(t *rapid.T, v *View, m *model) {
	after := rapid.Uint64Range(0, m.rev+1).Draw(t, "after")
	op := rapid.SampledFrom([]uint32{0, 1, 2, math.MaxUint32}).Draw(t, "op")
	var got []Event
	ok := v.Changes(after, op, func(e Event) bool { got = append(got, e); return true })
	if want := after > m.compacted || after == m.compacted && (op == math.MaxUint32 || after == 0); ok != want {
		t.Fatalf("changes after %d.%d at compacted %d: %v", after, op, m.compacted, ok)
	}
	if ok && !slices.Equal(got, m.changes(after, op)) {
		t.Fatalf("changes after %d.%d\n%s\nwant\n%s", after, op, show(got), show(m.changes(after, op)))
	}
}

func checkList(t *rapid.T, v *View, m *model) {
	lo := rapid.SampledFrom(append(someKeys, "")).Draw(t, "lo")
	hi := rapid.SampledFrom(append(someKeys, "", "")).Draw(t, "hi")
	if rapid.Bool().Draw(t, "by prefix") {
		lo, hi = Bounds(prefixSelector(rapid.SampledFrom(somePrefixes).Draw(t, "prefix")))
	}
	rev := rapid.Uint64Range(0, m.rev).Draw(t, "rev")
	if !v.Readable(lo, hi, rev) {
		rev = max(rev, m.compacted)
	}
	want := plain(m.list(lo, hi, rev))
	var got []Event
	v.Ascend(lo, hi, rev, func(r Rec) bool { got = append(got, Event{Rec: r}); return true })
	if !slices.Equal(got, want) {
		t.Fatalf("list [%q, %q) at %d\n%s\nwant\n%s", lo, hi, rev, show(got), show(want))
	}
	got = nil
	v.Descend(lo, hi, rev, func(r Rec) bool { got = append(got, Event{Rec: r}); return true })
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Fatalf("descend [%q, %q) at %d\n%s\nwant\n%s", lo, hi, rev, show(got), show(want))
	}
}

func checkKey(t *rapid.T, v *View, m *model, key string) {
	lowest := m.compacted
	if f, ok := m.floor(key); ok {
		lowest = f
	}
	for rev := uint64(0); rev <= m.rev+1; rev++ {
		if readable := v.Readable(key, key+"\x00", rev); readable != (rev >= lowest && rev <= m.rev) {
			t.Fatalf("%q readable at %d: %v; floor %d", key, rev, readable, lowest)
		} else if !readable {
			continue
		}
		if got, _ := v.Get(key, rev); got != m.get(key, rev) {
			t.Fatalf("get %q at %d: %s, want %s", key, rev, showRec(got), showRec(m.get(key, rev)))
		}
	}
	from := rapid.SampledFrom([]uint64{lowest, m.compacted, rapid.Uint64Range(lowest, m.rev).Draw(t, "from")}).Draw(t, "which")
	to := rapid.SampledFrom([]uint64{m.rev, rapid.Uint64Range(0, m.rev).Draw(t, "to")}).Draw(t, "which")
	want := m.history(key, from, to)
	for _, newest := range []bool{false, true} {
		var got []Event
		v.History(key, from, to, newest, func(e Event) bool { got = append(got, e); return true })
		if newest {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("history of %q from %d to %d, newest first %v\n%s\nwant\n%s", key, from, to, newest, show(got), show(want))
		}
	}
}

// TestStoreAgainstModel applies random steps and reads everything back, also from
// views taken long before.
func TestStoreAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{s: New(), m: &model{}}
		type held struct {
			v *View
			m *model
		}
		var views []held
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"put", "put", "put", "put", "compact", "sweep", "sweep", "view", "reload", "check"}).Draw(t, "step") {
			case "put":
				p.revision(t)
			case "compact":
				p.compact(t)
			case "sweep":
				p.s.Sweep(rapid.SampledFrom([]int{1, 2, 3, 1000}).Draw(t, "budget"))
			case "view":
				views = append(views, held{p.s.View(), p.m.clone()})
			case "reload":
				p.reload(t)
			case "check":
				check(t, p.s.View(), p.m)
			}
			if p.s.Digest() != p.m.digest() {
				t.Fatalf("digest %x, want %x", p.s.Digest(), p.m.digest())
			}
		}
		views = append(views, held{p.s.View(), p.m})
		for p.s.Sweep(7) {
		}
		views = append(views, held{p.s.View(), p.m})
		for _, h := range views {
			check(t, h.v, h.m)
		}
		checkSwept(t, p)
	})
}

// checkSwept looks for what a finished sweep should have freed.
func checkSwept(t *rapid.T, p *pair) {
	want := len(p.m.list("", "", p.m.rev))
	for _, k := range p.m.keys() {
		r := p.m.at(k, p.m.rev)
		floor, ok := p.m.floor(k)
		if r.Tombstone() && (r.Mod() > p.m.compacted || ok && r.Mod() > floor) {
			want++
		}
	}
	if got := p.s.r.tree.size(); got != want {
		t.Fatalf("%d records in the tree after a full sweep, want %d", got, want)
	}
	kept := 0
	if p.s.r.kept != nil {
		kept = p.s.r.kept.Len()
	}
	if len(p.s.dirty) > 0 || kept != len(p.m.kept()) {
		t.Fatalf("%d kept versions after a full sweep, want %d", kept, len(p.m.kept()))
	}
	if p.s.r.base != p.s.limit {
		t.Fatalf("swept to %d of %d", p.s.r.base, p.s.limit)
	}
}

func prefixSelector(p string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(p)}}
}
