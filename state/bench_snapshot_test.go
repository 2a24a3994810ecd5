package state

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/concord-kv/concord/messages"
)

var benchRandom = rand.NewChaCha8([32]byte{1})

// BenchmarkSnapshot saves and loads. "cpu-ms" is what one costs on all cores, garbage
// collection included; "incompressible" has values of random bytes.
func BenchmarkSnapshot(b *testing.B) {
	n := benchKeys()
	for _, name := range []string{"zeros", "incompressible"} {
		m := newBench(b)
		m.fillWith(n, func(value []byte) {
			if name != "zeros" {
				benchRandom.Read(value)
			}
		})
		m.apply(&messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: m.Revision()}}})
		for m.Sweep(1 << 20) {
		}
		var file bytes.Buffer
		if err := m.View().Save(&file); err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/save", func(b *testing.B) {
			runtime.GC()
			b.ReportAllocs()
			cpu := cpuTime()
			for b.Loop() {
				if err := m.View().Save(new(discard)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime()-cpu).Milliseconds())/float64(b.N), "cpu-ms")
			b.ReportMetric(float64(file.Len())/float64(n), "bytes/key")
		})
		m = nil
		b.Run(name+"/load", func(b *testing.B) {
			runtime.GC()
			b.ReportAllocs()
			cpu := cpuTime()
			for b.Loop() {
				if _, err := Load(bytes.NewReader(file.Bytes())); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime()-cpu).Milliseconds())/float64(b.N), "cpu-ms")
		})
	}
}

// TestMemoryPerKey reports what a live key and an entry of history cost beyond their
// bytes. Run with CONCORD_BENCH_KEYS.
func TestMemoryPerKey(t *testing.T) {
	if os.Getenv("CONCORD_BENCH_KEYS") == "" {
		t.Skip("set CONCORD_BENCH_KEYS")
	}
	n := benchKeys()
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	m := newBench(t)
	before := heap()
	m.fill(t, n)
	m.apply(&messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: m.Revision()}}})
	for m.Sweep(100_000) {
	}
	live := heap()
	t.Logf("live key: %.0f B beyond key and value", float64(live-before)/float64(n)-32-benchValueBytes)
	m.fill(t, n)
	history := heap()
	t.Logf("history entry: %.0f B beyond key and value", float64(history-live)/float64(n)-32-benchValueBytes)
	runtime.KeepAlive(m)
}

type discard struct{ n int }

func (d *discard) Write(b []byte) (int, error) { d.n += len(b); return len(b), nil }
