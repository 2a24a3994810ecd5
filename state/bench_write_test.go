package state

import (
	"runtime"
	"testing"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// BenchmarkPut overwrites random keys, beside a bare tree that only stores the same
// records.
func BenchmarkPut(b *testing.B) {
	n := benchKeys()
	value := make([]byte, benchValueBytes)
	b.Run("bare", func(b *testing.B) {
		tree, keys := bareTree(n), randomKeys(n, 1<<16)
		runtime.GC()
		b.ReportAllocs()
		b.ResetTimer()
		cpu := cpuTime()
		for i := range b.N * benchBatch {
			tree.Set(store.Make(store.Fields{KeyBytes: keys[i%len(keys)], ValueBytes: value, Mod: uint64(i + 2), Version: 2, Create: 1}))
		}
		perCommand(b, cpu)
	})
	for _, c := range []struct {
		name   string
		wanted int // a view every so many batches, 0 for none
	}{{"machine", 0}, {"machine, view a batch", 1}} {
		b.Run(c.name, func(b *testing.B) {
			m := newBench(b)
			m.fill(b, n)
			work := batches(1<<10, n, func(i int) *messages.Command { return putCommand(benchKey(i), value) })
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			cpu, collected := cpuTime(), gcTime()
			for i := range b.N {
				m.apply(work[i%len(work)]...)
				if c.wanted > 0 {
					m.View()
				}
			}
			perCommand(b, cpu)
			b.ReportMetric(100*(gcTime()-collected).Seconds()/(cpuTime()-cpu).Seconds(), "%gc")
		})
	}
}

// BenchmarkTxn is one compare and one put.
func BenchmarkTxn(b *testing.B) {
	n := benchKeys()
	m := newBench(b)
	m.fill(b, n)
	value := make([]byte, benchValueBytes)
	work := batches(1<<10, n, func(i int) *messages.Command {
		return &messages.Command{Op: &messages.Command_Txn{Txn: &messages.Txn{
			Compares: []*messages.Compare{{
				Key: benchKey(i), Operator: messages.CompareOperator_COMPARE_OPERATOR_GREATER,
				Target: &messages.Compare_ModRevision{ModRevision: 0},
			}},
			Success: []*messages.TxnOp{{Op: &messages.TxnOp_Put{Put: &messages.Put{Key: benchKey(i), Value: value}}}},
		}}}
	})
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	for i := range b.N {
		m.apply(work[i%len(work)]...)
	}
	perCommand(b, cpu)
}

// BenchmarkSessionPut is what the SDK's writes are: numbered, and acknowledged with
// the next.
func BenchmarkSessionPut(b *testing.B) {
	n := benchKeys()
	m := newBench(b)
	m.fill(b, n)
	const sessions = 1000
	for range sessions {
		m.apply(&messages.Command{Op: &messages.Command_OpenSession{OpenSession: &messages.OpenSession{TtlMs: 3_600_000}}})
	}
	value := make([]byte, benchValueBytes)
	work := batches(1<<10, n, func(i int) *messages.Command { return putCommand(benchKey(i), value) })
	next := make([]uint64, sessions)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	for i := range b.N {
		batch := work[i%len(work)]
		for j, c := range batch {
			s := (i*benchBatch + j) % sessions
			next[s]++
			c.SessionId, c.Sequence, c.Acknowledged = uint64(s+1), next[s], next[s]-1
		}
		if r := m.apply(batch...); r[0].Error != nil {
			b.Fatal(r[0])
		}
	}
	perCommand(b, cpu)
}
