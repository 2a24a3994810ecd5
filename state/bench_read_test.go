package state

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

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
	b.Run("get/record", func(b *testing.B) {
		q := &messages.Query{}
		get := &messages.Query_Get{Get: &messages.GetRequest{}}
		q.Query = get
		b.ReportAllocs()
		cpu := cpuTime()
		for i := range b.N {
			get.Get.Key = keys[i%len(keys)]
			if _, found, err := v.ReadGet(nil, q, Now{}); err != nil || !found {
				b.Fatal(found, err)
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
	list := func(i int) *messages.Query {
		return &messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{
			Selector: &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: keys[i%len(keys)]}}},
		}}}
	}
	b.Run("list1000/page", func(b *testing.B) {
		var page Page
		b.ReportAllocs()
		cpu := cpuTime()
		for i := range b.N {
			if err := v.ReadList(nil, list(i), Now{}, &page); err != nil {
				b.Fatal(err)
			}
		}
		perOp(b, cpu)
	})
	b.Run("list1000/query", func(b *testing.B) {
		b.ReportAllocs()
		cpu := cpuTime()
		for i := range b.N {
			if _, err := v.Query(list(i), Now{}); err != nil {
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
