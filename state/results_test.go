package state_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// TestPutAllocatesItsRecord: beside the stored records, entries of puts allocate pieces
// for many of them at once, and nothing each, when their effects are given back.
func TestPutAllocatesItsRecord(t *testing.T) {
	const puts, entries = 64, 64
	s := newScript()
	e := &messages.Entry{}
	e.Epoch, e.ReplicaId, e.Nonce = s.machine.ClockOwner()
	for i := range puts {
		e.Commands = append(e.Commands, &messages.Command{Op: &messages.Command_Put{Put: &messages.Put{
			Key: fmt.Appendf(nil, "k%02d", i), Value: make([]byte, 100),
		}}})
	}
	run := func() {
		for range entries {
			s.index++
			if r := s.machine.Apply(s.index, e); r[0].Error != nil {
				t.Fatal(r[0])
			}
			s.machine.Recycle(s.machine.TakeEffects())
		}
	}
	run() // which makes the keys
	each := testing.AllocsPerRun(3, run) / entries
	t.Logf("%.2f allocations for an entry of %d puts", each, puts)
	if each < puts || each > puts+2 {
		t.Errorf("%.2f allocations for an entry of %d puts", each, puts)
	}
}

// TestResultsAreKeptApart: results are never changed once they are given, whatever comes
// later, and those with records in them are in memory of their own.
func TestResultsAreKeptApart(t *testing.T) {
	s := newScript()
	e := &messages.Entry{}
	e.Epoch, e.ReplicaId, e.Nonce = s.machine.ClockOwner()
	for i := range 600 { // more than are allocated at once
		p := &messages.Put{Key: []byte("k"), Value: []byte(strings.Repeat("v", i)), PrevKv: i%3 == 1}
		if i%7 == 0 {
			p.LeaseId = 404
		}
		e.Commands = append(e.Commands, &messages.Command{Op: &messages.Command_Put{Put: p}})
	}
	apply := func(from, to int) []*messages.Result {
		s.index++
		part := proto.CloneOf(e)
		part.Commands = part.Commands[from:to]
		return s.machine.Apply(s.index, part)
	}
	var given, then []*messages.Result
	exists := false
	for _, piece := range [][2]int{{0, 600}, {0, 10}, {10, 11}, {11, 255}, {255, 600}, {3, 3}, {0, 600}} {
		got := apply(piece[0], piece[1])
		if len(got) != piece[1]-piece[0] {
			t.Fatalf("%d results of %v", len(got), piece)
		}
		for i, r := range got {
			p := e.Commands[piece[0]+i].GetPut()
			if refused := r.Error != nil; refused != (p.LeaseId != 0) {
				t.Fatalf("command %d: %v", piece[0]+i, r)
			}
			if r.Error == nil && r.GetPut() == nil {
				t.Fatalf("command %d has no answer", piece[0]+i)
			}
			if r.Error == nil && p.PrevKv && exists != (r.GetPut().Prev != nil) {
				t.Fatalf("command %d has not what it replaced", piece[0]+i)
			}
			exists = exists || r.Error == nil
			given, then = append(given, r), append(then, proto.CloneOf(r))
		}
	}
	for i := range given {
		if !proto.Equal(given[i], then[i]) {
			t.Fatalf("result %d was %v and is %v", i, then[i], given[i])
		}
	}
}

// TestRecycledEffects: effects that use memory again say the same as new ones.
func TestRecycledEffects(t *testing.T) {
	log := logOf(11, 300)
	again, anew := state.New(), state.New()
	for i, e := range log {
		again.Apply(uint64(i+1), proto.CloneOf(e))
		anew.Apply(uint64(i+1), proto.CloneOf(e))
		a, b := again.TakeEffects(), anew.TakeEffects()
		if x, y := fmt.Sprintf("%+v", *a), fmt.Sprintf("%+v", *b); x != y {
			t.Fatalf("entry %d: %s with memory used again, else %s", i+1, x, y)
		}
		again.Recycle(a)
	}
}
