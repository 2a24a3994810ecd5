package state

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/metrics"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/btree"

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
