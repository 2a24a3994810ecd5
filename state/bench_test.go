package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/btree"
	"golang.org/x/sys/unix"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// CONCORD_BENCH_KEYS sets the number of keys; the default is a million of 32 bytes
// with values of 256.
func benchKeys() int {
	if n, err := strconv.Atoi(os.Getenv("CONCORD_BENCH_KEYS")); err == nil {
		return n
	}
	return 1_000_000
}

const (
	benchValueBytes = 256
	benchBatch      = 64 // commands in an entry
)

func benchKey(i int) []byte {
	return fmt.Appendf(nil, "tenant/registry/%016x", uint64(i)*0x9E3779B97F4A7C15)
}

// bench is a machine to measure.
type bench struct {
	*Machine
	index uint64
	entry messages.Entry // scratch
}

func newBench(b testing.TB) *bench {
	b.Helper()
	m := &bench{Machine: New()}
	config := messages.DefaultClusterConfig()
	config.LeasesMax, config.QuotaBytes, config.RetentionRevisions = 10_000_000, 1<<40, 1<<40
	m.apply(&messages.Command{Op: &messages.Command_Bootstrap{Bootstrap: &messages.Bootstrap{
		ClusterId: []byte("c"), Incarnation: 1, ApplyVersion: 1, Config: config,
	}}})
	m.apply(&messages.Command{Op: &messages.Command_ClaimClock{ClaimClock: &messages.ClaimClock{ReplicaId: 1, Nonce: 1}}})
	return m
}

func (m *bench) apply(commands ...*messages.Command) []*messages.Result {
	m.index++
	m.entry.Epoch, m.entry.ReplicaId, m.entry.Nonce, m.entry.Commands = 1, 1, 1, commands
	r := m.Apply(m.index, &m.entry)
	m.Recycle(m.TakeEffects())
	return r
}

func putCommand(key, value []byte) *messages.Command {
	return &messages.Command{Op: &messages.Command_Put{Put: &messages.Put{Key: key, Value: value}}}
}

// fill puts n keys once.
func (m *bench) fill(b testing.TB, n int) {
	b.Helper()
	m.fillWith(n, func([]byte) {})
}

// fillWith puts n keys once, with the values that set makes.
func (m *bench) fillWith(n int, set func(value []byte)) {
	values := make([]byte, benchBatch*benchValueBytes)
	batch := make([]*messages.Command, 0, benchBatch)
	for i := range n {
		value := values[len(batch)*benchValueBytes:][:benchValueBytes]
		set(value)
		if batch = append(batch, putCommand(benchKey(i), value)); len(batch) == benchBatch || i == n-1 {
			m.apply(batch...)
			batch = batch[:0]
		}
	}
}

var benchRandom = rand.NewChaCha8([32]byte{1})

// batches prepares entries of commands on random keys, so that making them is not
// measured.
func batches(n, keys int, command func(i int) *messages.Command) [][]*messages.Command {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([][]*messages.Command, n)
	for i := range out {
		for range benchBatch {
			out[i] = append(out[i], command(r.IntN(keys)))
		}
	}
	return out
}

// perCommand reports wall and processor time of a command; the latter includes
// garbage collection on every core, and is steadier on a busy machine.
func perCommand(b *testing.B, cpu time.Duration) {
	n := float64(b.N * benchBatch)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/command")
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/n, "cpu-ns/command")
	b.ReportMetric(0, "ns/op")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// gcTime is the processor time that the collector has taken, as of the end of its last
// cycle: meaningful over several of them.
func gcTime() time.Duration {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(s)
	return time.Duration(s[0].Value.Float64() * float64(time.Second))
}

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

func bareTree(n int) *btree.BTreeG[store.Rec] {
	tree := btree.NewBTreeGOptions(func(a, b store.Rec) bool { return a.Key() < b.Key() }, btree.Options{NoLocks: true})
	value := make([]byte, benchValueBytes)
	for i := range n {
		tree.Set(store.Make(store.Fields{KeyBytes: benchKey(i), ValueBytes: value, Mod: 1, Version: 1}))
	}
	return tree
}

func randomKeys(n, count int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	keys := make([][]byte, count)
	for i := range keys {
		keys[i] = benchKey(r.IntN(n))
	}
	return keys
}

// perOp reports the processor time of an operation, garbage collection included.
func perOp(b *testing.B, cpu time.Duration) {
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// BenchmarkRead reads random keys: through a query, as the view's store does, and
// from a bare tree.
func BenchmarkRead(b *testing.B) {
	n := benchKeys()
	keys := randomKeys(n, 1<<16)
	b.Run("get/bare", func(b *testing.B) {
		tree := bareTree(n)
		pivots := make([]store.Rec, len(keys))
		for i, k := range keys {
			pivots[i] = store.Make(store.Fields{KeyBytes: k, Version: 1, Mod: 1})
		}
		runtime.GC()
		b.ResetTimer()
		cpu := cpuTime()
		for i := range b.N {
			tree.Get(pivots[i%len(pivots)])
		}
		perOp(b, cpu)
	})
	m := newBench(b)
	m.fill(b, n)
	v := m.View()
	strings := make([]string, len(keys))
	for i, k := range keys {
		strings[i] = string(k)
	}
	runtime.GC()
	b.Run("get/view", func(b *testing.B) {
		cpu := cpuTime()
		for i := range b.N {
			v.kv.Get(strings[i%len(strings)], v.Revision())
		}
		perOp(b, cpu)
	})
	b.Run("get/query", func(b *testing.B) {
		b.ReportAllocs()
		cpu := cpuTime()
		for i := range b.N {
			q := &messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: keys[i%len(keys)]}}}
			if _, err := v.Query(q, Now{}); err != nil {
				b.Fatal(err)
			}
		}
		perOp(b, cpu)
	})
	b.Run("list1000/store", func(b *testing.B) {
		cpu := cpuTime()
		for i := range b.N {
			left := 1000
			v.kv.Ascend(strings[i%len(strings)], "", v.Revision(), func(r store.Rec) bool {
				left -= 1 - int(r.Mod()>>63)
				return left > 0
			})
		}
		perOp(b, cpu)
	})
	b.Run("list1000/query", func(b *testing.B) {
		b.ReportAllocs()
		cpu := cpuTime()
		for i := range b.N {
			q := &messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{
				Selector: &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: keys[i%len(keys)]}}},
			}}}
			if _, err := v.Query(q, Now{}); err != nil {
				b.Fatal(err)
			}
		}
		perOp(b, cpu)
	})
}

// BenchmarkTimeTravel reads at random revisions, of ten events a key and values of
// 32 bytes.
func BenchmarkTimeTravel(b *testing.B) {
	n := benchKeys()
	m := newBench(b)
	value := make([]byte, 32)
	r := rand.New(rand.NewPCG(1, 2))
	batch := make([]*messages.Command, benchBatch)
	for range 10 * n / benchBatch {
		for i := range batch {
			batch[i] = putCommand(benchKey(r.IntN(n)), value)
		}
		m.apply(batch...)
	}
	v, keys := m.View(), randomKeys(n, 1<<16)
	runtime.GC()
	for _, name := range []string{"now", "then"} {
		b.Run("get, "+name, func(b *testing.B) {
			revisions := make([]uint64, 1<<16)
			for i := range revisions {
				if name == "then" {
					revisions[i] = 1 + r.Uint64N(v.Revision())
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuTime()
			for i := range b.N {
				get := &messages.GetRequest{Key: keys[i%len(keys)], Revision: revisions[i%len(revisions)]}
				if _, err := v.Query(&messages.Query{Query: &messages.Query_Get{Get: get}}, Now{}); err != nil {
					b.Fatal(err)
				}
			}
			perOp(b, cpu)
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

// BenchmarkIndexLookup finds one of a million keys by a field of its value.
func BenchmarkIndexLookup(b *testing.B) {
	n := benchKeys()
	m := newBench(b)
	m.apply(&messages.Command{Op: &messages.Command_CreateIndex{CreateIndex: &messages.CreateIndex{Definition: &messages.IndexDefinition{
		Name: "i", Extractor: &messages.Extractor{By: &messages.Extractor_Field{Field: "n"}},
	}}}})
	m.apply(&messages.Command{Op: &messages.Command_StepIndex{StepIndex: &messages.StepIndex{Name: "i"}}})
	for i := range n {
		c := putCommand(benchKey(i), fmt.Appendf(nil, `{"n":%d}`, i))
		c.GetPut().ContentType = "application/json"
		m.apply(c)
	}
	v := m.View()
	r := rand.New(rand.NewPCG(1, 2))
	b.ResetTimer()
	for range b.N {
		q := &messages.Query{Query: &messages.Query_IndexLookup{IndexLookup: &messages.IndexLookupRequest{
			Name: "i", EqualJson: strconv.AppendInt(nil, int64(r.IntN(n)), 10),
		}}}
		if reply, err := v.Query(q, Now{}); err != nil || len(reply.GetIndexLookup().Records) != 1 {
			b.Fatal(err, reply)
		}
	}
}

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

// threadTime is the processor time of this thread: what the wall clock would show if
// the thread had a processor for itself.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// TestPutLatencyWhileSaving reports what batches of puts of random keys take, in their
// thread's processor time, while a snapshot is saved beside them, as ratios to as long a
// time before it without one. The collector starts each round anew. Run with
// CONCORD_BENCH_KEYS.
func TestPutLatencyWhileSaving(t *testing.T) {
	if os.Getenv("CONCORD_BENCH_KEYS") == "" {
		t.Skip("set CONCORD_BENCH_KEYS")
	}
	n := benchKeys()
	p := newPutter(t, n)
	took := time.Second // by the last save
	var means, medians, p99s []float64
	for round := range 6 {
		p.trim()
		runtime.GC()
		alone := p.during(func() { <-time.After(took) })
		p.trim() // else what was put alone would be saved too
		runtime.GC()
		v := p.View()
		saving := p.during(func() {
			start := time.Now()
			if err := v.Save(new(discard)); err != nil {
				t.Error(err)
			}
			took = time.Since(start)
		})
		if round == 0 {
			continue // it warms up
		}
		t.Logf("alone %v, saving %v: mean %.2f, p50 %.2f, p99 %.2f", alone, saving,
			ratio(saving.mean, alone.mean), ratio(saving.p50, alone.p50), ratio(saving.p99, alone.p99))
		means = append(means, ratio(saving.mean, alone.mean))
		medians = append(medians, ratio(saving.p50, alone.p50))
		p99s = append(p99s, ratio(saving.p99, alone.p99))
	}
	for name, list := range map[string][]float64{"mean": means, "p50": medians, "p99": p99s} {
		slices.Sort(list)
		t.Logf("%s: median of rounds %.2f", name, list[len(list)/2])
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// putter applies batches of puts of random keys.
type putter struct {
	*bench
	random *rand.Rand
	keys   [][]byte
	batch  []*messages.Command
}

func newPutter(t testing.TB, n int) *putter {
	p := &putter{bench: newBench(t), random: rand.New(rand.NewPCG(1, 2)), keys: make([][]byte, n)}
	p.fill(t, n)
	for i := range p.keys {
		p.keys[i] = benchKey(i)
	}
	value := make([]byte, benchValueBytes)
	for range benchBatch {
		p.batch = append(p.batch, putCommand(nil, value))
	}
	return p
}

// trim drops the history, so that rounds are alike.
func (p *putter) trim() {
	p.apply(&messages.Command{Op: &messages.Command_Compact{Compact: &messages.Compact{Revision: p.Revision()}}})
	for p.Sweep(1 << 20) {
	}
}

// latency is what batches took.
type latency struct {
	batches        int
	mean, p50, p99 time.Duration
}

func (l latency) String() string {
	return fmt.Sprintf("%d batches, mean %v, p50 %v, p99 %v", l.batches, l.mean, l.p50, l.p99)
}

// during puts until work is done.
func (p *putter) during(work func()) latency {
	done := make(chan struct{})
	go func() {
		work()
		close(done)
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []time.Duration
	var sum time.Duration
	for {
		select {
		case <-done:
			slices.Sort(took)
			return latency{len(took), sum / time.Duration(len(took)), took[len(took)/2], took[len(took)*99/100]}
		default:
		}
		for _, c := range p.batch {
			c.GetPut().Key = p.keys[p.random.IntN(len(p.keys))]
		}
		start := threadTime()
		p.apply(p.batch...)
		took = append(took, threadTime()-start)
		sum += took[len(took)-1]
	}
}

type discard struct{ n int }

func (d *discard) Write(b []byte) (int, error) { d.n += len(b); return len(b), nil }
