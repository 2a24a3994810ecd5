package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/concord-kv/concord/messages"
	"github.com/tidwall/btree"
	"golang.org/x/sys/unix"
)

// The benchmarks use a million keys of 32 bytes with values of 256 bytes, and run
// each operation beside the same one on a bare tidwall/btree of the same records:
// go test -run '^$' -bench . ./state/store
const benchKeys = 1_000_000

var benchValue = make([]byte, 256)

var benchNames = sync.OnceValue(func() [][]byte {
	names := make([][]byte, benchKeys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "tenant/x/%023x", uint64(i)*mixA>>8)
	}
	return names
})

func benchRec(key []byte, prev Rec, rev uint64) Rec {
	f := Fields{KeyBytes: key, ValueBytes: benchValue, Mod: rev, Version: 1}
	if prev != "" {
		f.Create, f.Version = prev.Create(), prev.Version()+1
	}
	return Make(f)
}

func lessRec(a, b Rec) bool { return a.Key() < b.Key() }

func newBare() *btree.BTreeG[Rec] {
	return btree.NewBTreeGOptions(lessRec, btree.Options{NoLocks: true})
}

// filled returns a store with every key written once, in random order.
func filled() (s *Store) {
	s = New()
	for i, k := range benchNames() {
		s.Put(benchRec(k, "", uint64(i)+1))
	}
	return s
}

func filledBare() *btree.BTreeG[Rec] {
	t := newBare()
	for i, k := range benchNames() {
		t.Set(benchRec(k, "", uint64(i)+1))
	}
	return t
}

func overwrite(s *Store, rng *rand.Rand) {
	k := benchNames()[rng.IntN(benchKeys)]
	prev, _ := s.Get(string(k))
	s.Put(benchRec(k, prev, s.Revision()+1))
}

// cpu reports processor time, garbage collection included, which other work on the machine
// disturbs less than the wall clock. Call the result after the loop.
func cpu(b *testing.B) func() {
	start := processTime()
	return func() {
		b.ReportMetric(float64(processTime()-start)/float64(b.N), "cpu-ns/op")
	}
}

func processTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// trim keeps the last million revisions, as a running node does.
func trim(s *Store) {
	if s.Revision()%1_000 == 0 && s.Revision() > 2_000_000 {
		s.Compact(s.Revision()-1_000_000, nil)
		for s.Sweep(4_096) {
		}
	}
}

// BenchmarkPut overwrites random keys: build the record, put it, keep its history.
func BenchmarkPut(b *testing.B) {
	b.Run("store", func(b *testing.B) {
		s, rng := filled(), rand.New(rand.NewPCG(1, 1))
		runtime.GC()
		b.ReportAllocs()
		done := cpu(b)
		for b.Loop() {
			k := benchNames()[rng.IntN(benchKeys)]
			s.Put(benchRec(k, "", s.Revision()+1))
			trim(s)
		}
		done()
	})
	b.Run("store, read first", func(b *testing.B) {
		s, rng := filled(), rand.New(rand.NewPCG(1, 1))
		runtime.GC()
		b.ReportAllocs()
		done := cpu(b)
		for b.Loop() {
			overwrite(s, rng)
			trim(s)
		}
		done()
	})
	b.Run("store, view per 64", func(b *testing.B) {
		s, rng := filled(), rand.New(rand.NewPCG(1, 1))
		runtime.GC()
		var v *View
		done := cpu(b)
		for i := 0; b.Loop(); i++ {
			k := benchNames()[rng.IntN(benchKeys)]
			s.Put(benchRec(k, "", s.Revision()+1))
			trim(s)
			if i%64 == 0 {
				v = s.View()
			}
		}
		done()
		runtime.KeepAlive(v)
	})
	b.Run("bare tree", func(b *testing.B) {
		t, rng, rev := filledBare(), rand.New(rand.NewPCG(1, 1)), uint64(benchKeys)
		runtime.GC()
		b.ReportAllocs()
		done := cpu(b)
		for b.Loop() {
			rev++
			t.Set(benchRec(benchNames()[rng.IntN(benchKeys)], "", rev))
		}
		done()
	})
	b.Run("bare tree, view per 64", func(b *testing.B) {
		t, rng, rev := filledBare(), rand.New(rand.NewPCG(1, 1)), uint64(benchKeys)
		runtime.GC()
		var v *btree.BTreeG[Rec]
		done := cpu(b)
		for i := 0; b.Loop(); i++ {
			rev++
			t.Set(benchRec(benchNames()[rng.IntN(benchKeys)], "", rev))
			if i%64 == 0 {
				v = t.Copy()
			}
		}
		done()
		runtime.KeepAlive(v)
	})
}

// BenchmarkRead gets random keys and lists 1,000 records from a random key on.
func BenchmarkRead(b *testing.B) {
	s, t, rng := filled(), filledBare(), rand.New(rand.NewPCG(1, 1))
	v := s.View()
	runtime.GC()
	b.Run("get, store", func(b *testing.B) {
		done := cpu(b)
		for b.Loop() {
			if _, ok := s.Get(string(benchNames()[rng.IntN(benchKeys)])); !ok {
				b.Fatal("absent")
			}
		}
		done()
	})
	b.Run("get, bare tree", func(b *testing.B) {
		// The pivot is a stored record, which spares the bare tree building one.
		pivots := make([]Rec, benchKeys)
		for i, k := range benchNames() {
			pivots[i], _ = s.Get(string(k))
		}
		b.ResetTimer()
		done := cpu(b)
		for b.Loop() {
			if _, ok := t.Get(pivots[rng.IntN(benchKeys)]); !ok {
				b.Fatal("absent")
			}
		}
		done()
	})
	b.Run("list 1000, view", func(b *testing.B) {
		done := cpu(b)
		for b.Loop() {
			n := 0
			v.Ascend(string(benchNames()[rng.IntN(benchKeys)]), "", v.Revision(), func(r Rec) bool { n += int(r.Mod()>>63) + 1; return n < 1_000 })
		}
		done()
	})
	b.Run("list 1000, bare tree", func(b *testing.B) {
		done := cpu(b)
		for b.Loop() {
			n := 0
			t.Ascend(benchRec(benchNames()[rng.IntN(benchKeys)], "", 1), func(r Rec) bool { n += int(r.Mod()>>63) + 1; return n < 1_000 })
		}
		done()
	})
}

// BenchmarkTimeTravel reads at random revisions of ten million, of a million keys.
func BenchmarkTimeTravel(b *testing.B) {
	s, rng := New(), rand.New(rand.NewPCG(1, 1))
	value := benchValue
	benchValue = make([]byte, 32)
	defer func() { benchValue = value }()
	for i := range 10 * benchKeys {
		k := benchNames()[rng.IntN(benchKeys)]
		s.Put(benchRec(k, "", uint64(i)+1))
	}
	v := s.View()
	runtime.GC()
	b.Run("get, now", func(b *testing.B) {
		done := cpu(b)
		for b.Loop() {
			v.Get(string(benchNames()[rng.IntN(benchKeys)]), v.Revision())
		}
		done()
	})
	b.Run("get, then", func(b *testing.B) {
		done := cpu(b)
		for b.Loop() {
			v.Get(string(benchNames()[rng.IntN(benchKeys)]), 1+rng.Uint64N(v.Revision()))
		}
		done()
	})
	b.Run("list 1000, then", func(b *testing.B) {
		done := cpu(b)
		for b.Loop() {
			n := 0
			v.Ascend(string(benchNames()[rng.IntN(benchKeys)]), "", v.Revision()/2, func(r Rec) bool { n += int(r.Mod()>>63) + 1; return n < 1_000 })
		}
		done()
	})
	b.Run("history of a key", func(b *testing.B) {
		done := cpu(b)
		for b.Loop() {
			v.History(string(benchNames()[rng.IntN(benchKeys)]), 0, v.Revision(), true, func(Event) bool { return true })
		}
		done()
	})
	b.Run("changes 100", func(b *testing.B) {
		done := cpu(b)
		for b.Loop() {
			n := 0
			v.Changes(rng.Uint64N(v.Revision()), ^uint32(0), func(Event) bool { n++; return n < 100 })
		}
		done()
	})
	b.Run("compact half and sweep", func(b *testing.B) {
		start := time.Now()
		var steps []time.Duration
		s.Compact(s.Revision()/2, nil)
		compact := time.Since(start)
		for more := true; more; {
			at := time.Now()
			more = s.Sweep(1_000)
			steps = append(steps, time.Since(at))
		}
		sweep := time.Since(start)
		done := cpu(b)
		for b.Loop() {
			s.Sweep(1_000)
		}
		done()
		b.ReportMetric(float64(compact.Microseconds()), "compact-us")
		slices.Sort(steps)
		b.ReportMetric(float64(sweep.Nanoseconds())/float64(5*benchKeys), "sweep-ns/event")
		b.ReportMetric(float64(steps[len(steps)*99/100].Microseconds()), "p99-us/1000")
		b.ReportMetric(float64(steps[len(steps)-1].Microseconds()), "max-us/1000")
	})
}

// BenchmarkView takes views of a store that changed since the last one.
func BenchmarkView(b *testing.B) {
	s := filled()
	b.ReportAllocs()
	var v *View
	done := cpu(b)
	for b.Loop() {
		v = s.View()
	}
	done()
	runtime.KeepAlive(v)
}

// BenchmarkLoad loads a million keys without history from rows in memory.
func BenchmarkLoad(b *testing.B) {
	s := filled()
	s.Compact(s.Revision(), nil)
	var rows []*messages.SnapshotRow
	v := s.View()
	v.Rows(func(r *messages.SnapshotRow) bool { rows = append(rows, r); return true })
	done := cpu(b)
	for b.Loop() {
		l, _ := NewLoader(v.Revision(), v.Compacted(), nil)
		for _, r := range rows {
			if err := l.Row(r); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := l.Finish(); err != nil {
			b.Fatal(err)
		}
	}
	done()
}

// BenchmarkMemory reports what a live key and an event take beside key and value.
func BenchmarkMemory(b *testing.B) {
	benchNames()
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	start := heap()
	s := filled()
	s.Compact(s.Revision(), nil)
	for s.Sweep(1 << 20) {
	}
	keys := heap() - start
	rng := rand.New(rand.NewPCG(1, 1))
	var stored float64
	for range 2 * benchKeys {
		k := benchNames()[rng.IntN(benchKeys)]
		r := benchRec(k, "", s.Revision()+1)
		s.Put(r)
		stored += 320 // the size class of such a record
	}
	events := heap() - start - keys - stored
	done := cpu(b)
	for b.Loop() {
		s.Keys()
	}
	done()
	b.ReportMetric(keys/benchKeys-32-256, "B/key")
	b.ReportMetric(events/(2*benchKeys), "B/event")
	b.ReportMetric(float64(len(benchRec(benchNames()[0], "", 1))), "B/record")
	runtime.KeepAlive(s)
}
