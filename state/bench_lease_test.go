package state

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// BenchmarkLeases has a million leases.
func BenchmarkLeases(b *testing.B) {
	n := benchKeys()
	m := newBench(b)
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		m.apply(&messages.Command{Op: &messages.Command_GrantLease{GrantLease: &messages.GrantLease{TtlMs: 10_000 + int64(r.IntN(50_000))}}})
	}
	stamp := int64(0)
	for _, view := range []bool{false, true} {
		b.Run(fmt.Sprintf("keep_alive, view a batch %v", view), func(b *testing.B) {
			work := batches(1<<10, n, func(i int) *messages.Command {
				return &messages.Command{Op: &messages.Command_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{LeaseId: uint64(i + 1)}}}
			})
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuTime()
			for i := range b.N {
				if i%64 == 0 {
					stamp++
				}
				for _, c := range work[i%len(work)] {
					c.StampMs = stamp
				}
				m.apply(work[i%len(work)]...)
				if view {
					m.View()
				}
			}
			perCommand(b, cpu)
		})
	}
	b.Run("tick, nothing due", func(b *testing.B) {
		tick := &messages.Command{StampMs: stamp, Op: &messages.Command_Tick{Tick: &messages.Tick{}}}
		b.ResetTimer()
		for range b.N {
			m.apply(tick)
		}
	})
	b.Run("due, nothing due", func(b *testing.B) {
		for range b.N {
			m.Due(stamp, 50)
		}
	})
	b.Run("view", func(b *testing.B) {
		for range b.N {
			m.view = nil
			m.View()
		}
	})
}

// BenchmarkExpire applies the end of 100,000 leases of one key each, which are due
// at once, in commands of 50.
func BenchmarkExpire(b *testing.B) {
	const leases = 100_000
	for range b.N {
		b.StopTimer()
		m := newBench(b)
		for i := range leases {
			c := putCommand(benchKey(i), nil)
			c.GetPut().TtlMs = 1000
			m.apply(c)
		}
		b.StartTimer()
		for {
			pairs, _ := m.Due(1000, 50)
			if len(pairs) == 0 {
				break
			}
			m.apply(&messages.Command{StampMs: 1000, Op: &messages.Command_ExpireLeases{ExpireLeases: &messages.ExpireLeases{Pairs: pairs}}})
		}
		if m.Stats().Keys != 0 {
			b.Fatal("keys are left")
		}
	}
}
