package index

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
)

const benchmarkKeys = 1_000_000

func benchmarkKey(i int) string { return fmt.Sprintf("tenant/7/object/%08d", i) }

func benchmarkContent(n int) Content {
	return jsonContent(fmt.Sprintf(`{"kind":"order","n":%d,"owner":"user-%d","text":"some words that are not indexed"}`, n, n%5000))
}

// benchmarkTable has an index of a million entries, one for each key.
func benchmarkTable(b *testing.B) *Table {
	b.Helper()
	t := New()
	if err := t.Restore(&messages.IndexInfo{Definition: define("n", "tenant/", byField("n")), EntriesPerKeyMax: 1024, Engine: field.Engine}); err != nil {
		b.Fatal(err)
	}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(benchmarkKeys) {
		t.Update(benchmarkKey(i), Content{}, benchmarkContent(i))
	}
	return t
}

func BenchmarkTable(b *testing.B) {
	t := benchmarkTable(b)
	random := rand.New(rand.NewPCG(3, 4))
	now := map[int]int{} // keys that do not have their first content any more

	// One record overwritten: two extractions, one entry out, one in.
	overwrite := func() {
		i, n := random.IntN(benchmarkKeys), random.IntN(1<<30)
		was, moved := now[i]
		if !moved {
			was = i
		}
		now[i] = n
		t.Update(benchmarkKey(i), benchmarkContent(was), benchmarkContent(n))
	}
	b.Run("overwrite", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			overwrite()
		}
	})
	b.Run("overwrite, a view every 64", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if overwrite(); n%64 == 0 {
				t.View()
			}
		}
	})
	b.Run("content only", func(b *testing.B) { // what of overwrite is the benchmark's own
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = benchmarkKey(random.IntN(benchmarkKeys)), benchmarkContent(random.IntN(1<<30)), benchmarkContent(random.IntN(1<<30))
		}
	})
	b.Run("same value", func(b *testing.B) { // another record, the indexed value stays
		old := jsonContent(`{"kind":"a","n":77}`)
		new := jsonContent(`{"kind":"b","n":77}`)
		t.Update("tenant/same", Content{}, old)
		b.ReportAllocs()
		for b.Loop() {
			t.Update("tenant/same", old, new)
			old, new = new, old
		}
		t.Update("tenant/same", old, Content{})
	})
	view := t.View()
	values := make([]field.Value, 4096)
	for i := range values {
		values[i], _ = field.ParseJSON(fmt.Append(nil, random.IntN(benchmarkKeys)))
	}
	b.Run("lookup equal", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if _, err := view.Lookup("n", Query{Equal: values[n%len(values)], Limit: 10}, nil, func(string) bool { return true }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lookup range of 1000", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if _, err := view.Lookup("n", Query{Min: values[n%len(values)], Limit: 1000}, nil, func(string) bool { return true }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("step of 10000", func(b *testing.B) {
		ascend := func(lo, hi string, fn func(string, Content) bool) {
			c := benchmarkContent(1)
			for i := 0; i <= 10_000 && fn(benchmarkKey(i), c); i++ {
			}
		}
		for b.Loop() {
			t.Create(define("step", "", byField("n")), 10)
			t.Step("step", nil, 10_000, ascend)
			t.Drop("step")
		}
	})
	b.Run("create and drop at 1M", func(b *testing.B) {
		for b.Loop() {
			if _, err := t.Drop("n"); err != nil {
				b.Fatal(err)
			}
			t.Create(define("n", "tenant/", byField("n")), 10)
		}
	})
}
