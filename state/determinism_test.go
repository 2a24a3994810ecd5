package state_test

import (
	"bytes"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
	"github.com/concord-kv/concord/state/statetest"
)

type seeded struct{ *rand.Rand }

func (s seeded) Choose(n int) int { return s.IntN(n) }

// logOf makes a log by a seed.
func logOf(seed uint64, entries int) []*messages.Entry {
	twin := statetest.NewTwin()
	g := &statetest.Generator{Source: seeded{rand.New(rand.NewPCG(seed, 0))}, Twin: twin}
	log := g.Begin()
	for _, e := range log {
		twin.Apply(proto.Clone(e).(*messages.Entry))
	}
	for range entries {
		e := g.Entry()
		log = append(log, e)
		twin.Apply(proto.Clone(e).(*messages.Entry))
	}
	return log
}

// TestDeterminism: replicas that are treated differently are equal after every
// command: other batches, other garbage collection, views, sweeps, and one that
// begins from a snapshot in the middle of the log. (Each of them is a map with a
// seed of its own, too.)
func TestDeterminism(t *testing.T) {
	entries := 600
	if testing.Short() {
		entries = 150
	}
	for seed := range uint64(3) {
		log := logOf(seed, entries)
		var want []uint64
		plain := state.New()
		index := uint64(0)
		each(log, func(e *messages.Entry) {
			index++
			plain.Apply(index, e)
			want = append(want, plain.Digest())
		})
		treatments := map[string]func(m *state.Machine, i int) *state.Machine{
			"swept and viewed": func(m *state.Machine, i int) *state.Machine {
				if i%3 == 0 {
					m.Sweep(i % 50)
				}
				if i%5 == 0 {
					m.View()
				}
				if i%7 == 0 {
					m.Recycle(m.TakeEffects())
				}
				return m
			},
			"from a snapshot": func(m *state.Machine, i int) *state.Machine {
				if i != len(want)/2 && i != len(want)/3 {
					return m
				}
				var b bytes.Buffer
				if err := m.View().Save(&b); err != nil {
					t.Fatal(err)
				}
				m, err := state.Load(&b)
				if err != nil {
					t.Fatal(err)
				}
				return m
			},
			"little memory": func(m *state.Machine, i int) *state.Machine {
				if i == 0 {
					t.Cleanup(func() { debug.SetGCPercent(100) })
					debug.SetGCPercent(10)
				}
				return m
			},
		}
		for name, treat := range treatments {
			m := state.New()
			index, i := uint64(0), 0
			each(log, func(e *messages.Entry) {
				m = treat(m, i)
				index++
				m.Apply(index, e)
				if m.Digest() != want[i] {
					t.Fatalf("seed %d, %s, command %d: digest %x, want %x", seed, name, i, m.Digest(), want[i])
				}
				i++
			})
			if m.FullDigest() != want[len(want)-1] {
				t.Fatalf("seed %d, %s: full digest differs", seed, name)
			}
		}
		// Whole entries: the same at the end of each.
		m := state.New()
		done := 0
		for i, e := range log {
			m.Apply(uint64(i*3+1), proto.Clone(e).(*messages.Entry))
			done += len(e.Commands)
			if m.Digest() != want[done-1] {
				t.Fatalf("seed %d, entry %d: digest %x, want %x", seed, i, m.Digest(), want[done-1])
			}
		}
	}
}

// each calls fn with an entry for each command of a log.
func each(log []*messages.Entry, fn func(*messages.Entry)) {
	for _, e := range log {
		for _, c := range e.Commands {
			one := proto.Clone(e).(*messages.Entry)
			one.Commands = []*messages.Command{proto.Clone(c).(*messages.Command)}
			fn(one)
		}
	}
}
