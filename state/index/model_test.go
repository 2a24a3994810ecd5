package index

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
	"pgregory.net/rapid"
)

// expect computes from the records what a lookup of a range must find, without the
// index: the least matching value of each key, then the key.
func (w *world) expect(d *messages.IndexDefinition, perKeyMax int, q Query) string {
	type hit struct {
		value field.Value
		key   string
	}
	var hits []hit
	for _, key := range w.keys() {
		c := w.records[key]
		if !strings.HasPrefix(key, string(d.Prefix)) {
			continue
		}
		least := field.Value("")
		field.ExtractEach(d.Extractor, c.ContentType, c.Value, perKeyMax, func(v field.Value) {
			matches := v >= q.Min && (q.Max == "" || v < q.Max)
			if q.Equal != "" {
				matches = v == q.Equal
			}
			kept := field.Value(appendKept(nil, v)) // the order of long values that begin alike
			if matches && (least == "" || kept < least) {
				least = kept
			}
		})
		if least != "" {
			hits = append(hits, hit{least, key})
		}
	}
	slices.SortFunc(hits, func(a, b hit) int {
		if c := field.Compare(a.value, b.value); c != 0 {
			return c
		}
		return strings.Compare(a.key, b.key)
	})
	keys := make([]string, len(hits))
	for i, h := range hits {
		keys[i] = h.key
	}
	return strings.Join(keys, " ")
}

// reload fills a new table from descriptions and records, as a snapshot does.
func (w *world) reload(t *rapid.T) *Table {
	table := New()
	for _, info := range w.table.View().List() {
		if err := table.Restore(info); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range w.keys() {
		table.Update(k, Content{}, w.records[k])
	}
	return table
}

func dump(v *View) string {
	var b strings.Builder
	for _, ix := range v.indexes {
		fmt.Fprintf(&b, "%v several=%d\n", ix.info(), ix.several)
		ix.entries.Scan(func(e string) bool { fmt.Fprintf(&b, "%x\n", e); return true })
	}
	return b.String()
}

// TestModel drives a table with everything at random and holds it against the
// records alone, against a reload, and its old views against their past.
func TestModel(t *testing.T) {
	scalars := []string{`1`, `1.0`, `2`, `-3`, `"a"`, `"b"`, `"a\u0000"`, `true`, `null`, `{"a":1}`, `""`}
	long := strings.Repeat("x", ValueBytesMax)
	longs := []string{`"` + long + `a"`, `"` + long + `b"`, `["` + long + `"]`}
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		type past struct {
			view *View
			dump string
		}
		var pasts []past
		const perKeyMax = 4
		value := rapid.Custom(func(t *rapid.T) string {
			scalars := append(slices.Clone(scalars), longs...)
			if rapid.Bool().Draw(t, "list") {
				return "[" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(scalars), 0, 6).Draw(t, "list"), ",") + "]"
			}
			return rapid.SampledFrom(scalars).Draw(t, "scalar")
		})
		key := rapid.StringMatching(`[ab][ab\x00]{0,2}`)
		definition := func() *messages.IndexDefinition {
			x := rapid.SampledFrom([]*messages.Extractor{
				byField("f"), byField("g"),
				{By: &messages.Extractor_Identity{Identity: true}},
				{By: &messages.Extractor_Path_{Path: &messages.Extractor_Path{Names: []string{"f", "a"}}}},
			}).Draw(r, "extractor")
			return define(rapid.SampledFrom([]string{"i", "j", "k"}).Draw(r, "name"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(r, "prefix"), x)
		}
		r.Repeat(map[string]func(*rapid.T){
			"put": func(r *rapid.T) {
				c := jsonContent(fmt.Sprintf(`{"f":%s,"g":%s}`, value.Draw(r, "f"), value.Draw(r, "g")))
				switch rapid.IntRange(0, 9).Draw(r, "kind") {
				case 0:
					c.ContentType = "text/plain"
				case 1:
					c.Value = c.Value[:len(c.Value)-1]
				}
				w.put(key.Draw(r, "key"), c)
			},
			"delete": func(r *rapid.T) { w.put(key.Draw(r, "key"), Content{}) },
			"create": func(r *rapid.T) { w.table.Create(definition(), perKeyMax) },
			"step": func(r *rapid.T) {
				w.step(rapid.SampledFrom([]string{"i", "j", "k"}).Draw(r, "name"), rapid.IntRange(1, 5).Draw(r, "n"))
			},
			"drop": func(r *rapid.T) {
				if rapid.IntRange(0, 4).Draw(r, "rare") == 0 {
					w.table.Drop(rapid.SampledFrom([]string{"i", "j", "k"}).Draw(r, "name"))
				}
			},
			"view": func(r *rapid.T) {
				if v := w.table.View(); len(pasts) < 5 {
					pasts = append(pasts, past{v, dump(v)})
				}
			},
			"lookup": func(r *rapid.T) {
				from := func(texts []string) *rapid.Generator[field.Value] {
					return rapid.Map(rapid.SampledFrom(texts), func(text string) field.Value { return parse(t, text) })
				}
				bound := from(scalars)
				q := Query{}
				switch rapid.IntRange(0, 3).Draw(r, "query") {
				case 0:
					q.Equal = from(append(slices.Clone(scalars), longs...)).Draw(r, "equal")
				case 1:
					q.Min, q.Max = bound.Draw(r, "min"), bound.Draw(r, "max")
				case 2:
					q.Min = bound.Draw(r, "min")
				}
				for _, info := range w.table.View().List() {
					if info.Building {
						continue
					}
					got := w.lookup(info.Definition.Name, q, rapid.IntRange(1, 4).Draw(r, "limit"))
					if want := w.expect(info.Definition, perKeyMax, q); got != want {
						r.Fatalf("%v %x: %q, want %q", info, q, got, want)
					}
				}
			},
			"": func(r *rapid.T) {
				if got, want := w.table.Digest(), w.table.FullDigest(); got != want {
					r.Fatalf("digest %x, full %x", got, want)
				}
				again := w.reload(r)
				if a, b := dump(w.table.View()), dump(again.View()); a != b {
					r.Fatalf("after a reload:\n%s\nwas:\n%s", b, a)
				}
				if a, b := w.table.Digest(), again.Digest(); a != b {
					r.Fatalf("digest %x, after a reload %x", a, b)
				}
				for _, p := range pasts {
					if got := dump(p.view); got != p.dump {
						r.Fatalf("a view changed:\n%s\nwas:\n%s", got, p.dump)
					}
				}
			},
		})
	})
}

// TestDigestTells: tables that differ in one thing have different digests.
func TestDigestTells(t *testing.T) {
	build := func(name, prefix string, x *messages.Extractor, max uint64, steps int, values ...string) uint64 {
		w := newWorld(t)
		for i, v := range values {
			w.put(fmt.Sprint(i), jsonContent(v))
		}
		w.table.Create(define(name, prefix, x), max)
		for range steps {
			w.step(name, 1)
		}
		return w.table.Digest()
	}
	path := func(names ...string) *messages.Extractor {
		return &messages.Extractor{By: &messages.Extractor_Path_{Path: &messages.Extractor_Path{Names: names}}}
	}
	seen := map[uint64]int{}
	for i, d := range []uint64{
		New().Digest(),
		build("a", "", byField("n"), 10, 0), build("b", "", byField("n"), 10, 0), build("a", "x", byField("n"), 10, 0),
		build("a", "", byField("m"), 10, 0), build("a", "", path("n"), 10, 0), build("a", "", path("n", "m"), 10, 0), build("a", "", path("nm"), 10, 0),
		build("a", "", byField("n"), 11, 0), build("a", "", byField("n"), 10, 1),
		build("a", "", byField("n"), 10, 1, `{"n":1}`, `{"n":1}`),
		build("a", "", byField("n"), 10, 3, `{"n":1}`, `{"n":1}`), build("a", "", byField("n"), 10, 3, `{"n":1}`, `{"n":2}`),
		build("a", "", byField("n"), 10, 3, `{"n":2}`, `{"n":1}`), build("a", "", byField("n"), 1, 2, `{"n":[1,2]}`), build("a", "", byField("n"), 1, 2, `{"n":[1]}`),
	} {
		if j, twice := seen[d]; twice {
			t.Errorf("%d and %d have one digest", i, j)
		}
		seen[d] = i
	}
}

// TestViewsWhileWriting is for the race detector: readers of views beside the owner.
func TestViewsWhileWriting(t *testing.T) {
	w := newWorld(t)
	w.ready(define("n", "", byField("n")), 10)
	views := make(chan *View, 4)
	var readers sync.WaitGroup
	for range 2 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for v := range views {
				n := 0
				if _, err := v.Lookup("n", Query{Limit: 1 << 30}, nil, func(string) bool { n++; return true }); err != nil {
					t.Error(err)
				}
				if info, _ := v.Info("n"); info.Entries != uint64(n) {
					t.Errorf("%d entries, %d found", info.Entries, n)
				}
			}
		}()
	}
	for i := range 3000 {
		w.put(fmt.Sprint(i%700), jsonContent(fmt.Sprintf(`{"n":%d}`, i*7919%1000)))
		if i%10 == 0 {
			views <- w.table.View()
		}
	}
	close(views)
	readers.Wait()
}
