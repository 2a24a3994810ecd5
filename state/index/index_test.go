package index

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
)

const jsonType = "application/json"

func byField(name string) *messages.Extractor {
	return &messages.Extractor{By: &messages.Extractor_Field{Field: name}}
}

func define(name, prefix string, x *messages.Extractor) *messages.IndexDefinition {
	return &messages.IndexDefinition{Name: name, Prefix: []byte(prefix), Extractor: x}
}

func jsonContent(text string) Content {
	return Content{Present: true, ContentType: jsonType, Value: text}
}

func parse(t testing.TB, text string) field.Value {
	t.Helper()
	if text == "" {
		return ""
	}
	v, err := field.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// world is a table with the records it was told of.
type world struct {
	t       testing.TB
	table   *Table
	records map[string]Content
}

func newWorld(t testing.TB) *world {
	return &world{t: t, table: New(), records: map[string]Content{}}
}

func (w *world) put(key string, c Content) {
	w.table.Update(key, w.records[key], c)
	if w.records[key] = c; !c.Present {
		delete(w.records, key)
	}
}

func (w *world) keys() []string {
	keys := make([]string, 0, len(w.records))
	for k := range w.records {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) ascend(lo, hi string, fn func(string, Content) bool) {
	for _, k := range w.keys() {
		if k >= lo && (hi == "" || k < hi) && !fn(k, w.records[k]) {
			return
		}
	}
}

// ready creates an index and fills it.
func (w *world) ready(d *messages.IndexDefinition, perKeyMax uint64) {
	w.t.Helper()
	if _, err := w.table.Create(d, perKeyMax); err != nil {
		w.t.Fatal(err)
	}
	for w.step(d.Name, 3) {
	}
}

// step advances a back-fill and says whether it must go on.
func (w *world) step(name string, keys int) bool {
	for _, s := range w.table.Steps() {
		if s.Name == name {
			return !w.table.Step(name, s.ExpectedCursor, keys, w.ascend)
		}
	}
	return false
}

// lookup reads all pages of limit keys and joins the keys.
func (w *world) lookup(name string, q Query, limit int) string {
	w.t.Helper()
	var keys []string
	q.Limit = limit
	for pages := 0; ; pages++ {
		page, err := w.table.View().Lookup(name, q, w.get, func(key string) bool {
			keys = append(keys, key)
			return true
		})
		if err != nil {
			w.t.Fatalf("lookup %s: %v", name, err)
		}
		if !page.More {
			return strings.Join(keys, " ")
		}
		if q.After = page.After; pages > 10_000 {
			w.t.Fatal("pages without end")
		}
	}
}

func (w *world) get(key string) Content { return w.records[key] }

func TestLookup(t *testing.T) {
	w := newWorld(t)
	w.put("a/1", jsonContent(`{"n":1,"tags":["x","y"]}`))
	w.put("a/2", jsonContent(`{"n":1.0,"tags":["y","z","y"]}`))
	w.ready(define("n", "a/", byField("n")), 10)
	w.ready(define("tags", "a/", byField("tags")), 10)
	w.put("a/3", jsonContent(`{"n":9007199254740993,"tags":[]}`))
	w.put("a/4", jsonContent(`{"n":null,"tags":null}`))
	w.put("a/5", jsonContent(`not JSON`))
	w.put("a/6", Content{Present: true, ContentType: "text/plain", Value: `{"n":1}`})
	w.put("a/7", jsonContent(`{"n":"1","tags":"z"}`))
	w.put("b/1", jsonContent(`{"n":1,"tags":["x"]}`))
	tests := []struct {
		index, equal, min, max, want string
	}{
		{"n", `1`, ``, ``, "a/1 a/2"},
		{"n", `1e0`, ``, ``, "a/1 a/2"},
		{"n", `"1"`, ``, ``, "a/7"},
		{"n", `9007199254740992`, ``, ``, ""},
		{"n", `9007199254740993`, ``, ``, "a/3"},
		{"n", `null`, ``, ``, ""},
		{"n", ``, `1`, `2`, "a/1 a/2"},
		{"n", ``, `0`, `1`, ""},
		{"n", ``, `1`, ``, "a/1 a/2 a/3 a/7"},
		{"n", ``, ``, `""`, "a/1 a/2 a/3"},
		{"n", ``, `2`, `1`, ""},
		{"n", ``, ``, ``, "a/1 a/2 a/3 a/7"},
		{"tags", `"y"`, ``, ``, "a/1 a/2"},
		{"tags", `"x"`, ``, ``, "a/1"},
		{"tags", ``, `"x"`, `"z"`, "a/1 a/2"},
		{"tags", ``, `"y"`, ``, "a/1 a/2 a/7"},
		{"tags", ``, ``, ``, "a/1 a/2 a/7"},
	}
	for _, limit := range []int{1, 2, 100} {
		for _, tt := range tests {
			q := Query{Equal: parse(t, tt.equal), Min: parse(t, tt.min), Max: parse(t, tt.max)}
			if got := w.lookup(tt.index, q, limit); got != tt.want {
				t.Errorf("limit %d: %s =%s [%s,%s): %q, want %q", limit, tt.index, tt.equal, tt.min, tt.max, got, tt.want)
			}
		}
	}
	w.put("a/1", Content{})
	w.put("a/2", jsonContent(`{"n":2,"tags":["z"]}`))
	if got := w.lookup("n", Query{Equal: parse(t, `1`)}, 10); got != "" {
		t.Errorf("after delete and overwrite: %q", got)
	}
	if got := w.lookup("tags", Query{Equal: parse(t, `"z"`)}, 10); got != "a/2 a/7" {
		t.Errorf("after overwrite: %q", got)
	}
}

// TestStop: a key that take refuses begins the next page.
func TestStop(t *testing.T) {
	w := newWorld(t)
	w.ready(define("n", "", byField("n")), 10)
	for i := range 5 {
		w.put(fmt.Sprintf("k%d", i), jsonContent(`{"n":1}`))
	}
	var keys []string
	q := Query{Equal: parse(t, `1`), Limit: 100}
	for range 20 {
		room := 2
		page, err := w.table.View().Lookup("n", q, w.get, func(key string) bool {
			if room--; room < 0 {
				return false
			}
			keys = append(keys, key)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if q.After = page.After; !page.More {
			break
		}
	}
	if got := strings.Join(keys, " "); got != "k0 k1 k2 k3 k4" {
		t.Errorf("%q", got)
	}
	page, err := w.table.View().Lookup("n", Query{Limit: 100}, w.get, func(string) bool { return false })
	if err != nil || !page.More || page.After != nil {
		t.Errorf("nothing taken: %+v %v", page, err)
	}
}

func TestScanBound(t *testing.T) {
	w := newWorld(t)
	w.ready(define("l", "", byField("l")), LookupScanMax+10)
	var b strings.Builder
	for i := range LookupScanMax + 5 {
		fmt.Fprintf(&b, ",%d", i)
	}
	w.put("k", jsonContent(`{"l":[`+b.String()[1:]+`]}`))
	page, err := w.table.View().Lookup("l", Query{Limit: 10}, w.get, func(string) bool { return true })
	if err != nil || !page.More {
		t.Fatalf("%+v %v", page, err)
	}
	if got := w.lookup("l", Query{}, 10); got != "k" {
		t.Errorf("%q", got)
	}
}

func TestLongValues(t *testing.T) {
	w := newWorld(t)
	w.ready(define("s", "", byField("s")), 10)
	long := strings.Repeat("x", ValueBytesMax)
	quoted := func(s string) string { return `{"s":"` + s + `"}` }
	// The encoding adds a tag and a terminator of two bytes.
	fits, over := long[:ValueBytesMax-3], long[:ValueBytesMax-2]
	w.put("1fits", jsonContent(quoted(fits)))
	w.put("2over", jsonContent(quoted(over)))
	w.put("3long", jsonContent(quoted(long+"a")))
	w.put("4long", jsonContent(quoted(long+"b")))
	w.put("5same", jsonContent(quoted(long+"b")))
	w.put("6less", jsonContent(quoted("a"+long)))
	w.put("7more", jsonContent(quoted("y")))
	for s, want := range map[string]string{fits: "1fits", over: "2over", long + "a": "3long", long + "b": "4long 5same", long + "c": "", "a" + long: "6less"} {
		if got := w.lookup("s", Query{Equal: field.String(s)}, 1); got != want {
			t.Errorf("equal to a value of %d bytes: %q, want %q", len(s), got, want)
		}
	}
	got := strings.Fields(w.lookup("s", Query{Min: field.String("x"), Max: field.String("y")}, 2))
	slices.Sort(got)
	if want := "1fits 2over 3long 4long 5same"; strings.Join(got, " ") != want {
		t.Errorf("range: %q, want %q", got, want)
	}
	if got := w.lookup("s", Query{Max: field.String(fits)}, 2); got != "6less" {
		t.Errorf("below: %q", got)
	}
	_, err := w.table.View().Lookup("s", Query{Min: field.String(over)}, w.get, nil)
	if err.Code() != messages.Code_CODE_INVALID_ARGUMENT || err.Detail.GetField() != "min_json" || err.Detail.GetLimit() != ValueBytesMax {
		t.Errorf("a long bound: %v", err)
	}
	w.put("4long", Content{})
	if got := w.lookup("s", Query{Equal: field.String(long + "b")}, 1); got != "5same" {
		t.Errorf("after delete: %q", got)
	}
}

// TestEntryLimit: elements beyond the limit have no entry, whatever the order of
// writes, and the definition says how many keys that concerns.
func TestEntryLimit(t *testing.T) {
	w := newWorld(t)
	w.ready(define("l", "", byField("l")), 3)
	w.put("k", jsonContent(`{"l":[5,4,null,4,1,2]}`))
	info := func() *messages.IndexInfo { i, _ := w.table.View().Info("l"); return i }
	if i := info(); i.Entries != 2 || i.TruncatedKeys != 1 || i.EntriesPerKeyMax != 3 {
		t.Errorf("%v", i)
	}
	for text, want := range map[string]string{`5`: "k", `4`: "k", `1`: "", `2`: ""} {
		if got := w.lookup("l", Query{Equal: parse(t, text)}, 1); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	w.put("k", jsonContent(`{"l":[1,2,3]}`))
	if i := info(); i.Entries != 3 || i.TruncatedKeys != 0 {
		t.Errorf("%v", i)
	}
	w.put("k", Content{})
	if i := info(); i.Entries != 0 || i.TruncatedKeys != 0 {
		t.Errorf("%v", i)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.put("k", jsonContent(`{"n":1}`))
	if _, err := w.table.Create(define("n", "", byField("n")), 10); err != nil {
		t.Fatal(err)
	}
	look := func(name string, q Query) messages.Code {
		_, err := w.table.View().Lookup(name, q, w.get, func(string) bool { return true })
		if err == nil {
			return messages.Code_CODE_OK
		}
		return err.Code()
	}
	if c := look("n", Query{}); c != messages.Code_CODE_INDEX_BUILDING {
		t.Errorf("building: %v", c)
	}
	if c := look("m", Query{}); c != messages.Code_CODE_INDEX_NOT_FOUND {
		t.Errorf("absent: %v", c)
	}
	if _, err := w.table.Create(define("n", "", byField("n")), 10); err.Code() != messages.Code_CODE_INDEX_EXISTS {
		t.Errorf("twice: %v", err)
	}
	if _, err := w.table.Drop("m"); err.Code() != messages.Code_CODE_INDEX_NOT_FOUND {
		t.Errorf("drop of none: %v", err)
	}
	for w.step("n", 1) {
	}
	one := parse(t, `1`)
	good := append([]byte{cursorVersion}, string(one)+"k"...)
	tests := []struct {
		q    Query
		code messages.Code
	}{
		{Query{Equal: one, After: good, Limit: 1}, messages.Code_CODE_OK},
		{Query{Equal: one, Min: one}, messages.Code_CODE_INVALID_ARGUMENT},
		{Query{Equal: one, After: []byte{}}, messages.Code_CODE_INVALID_ARGUMENT},
		{Query{Equal: one, After: []byte("x")}, messages.Code_CODE_INVALID_ARGUMENT},
		{Query{Equal: one, After: append([]byte{2}, good[1:]...)}, messages.Code_CODE_INVALID_ARGUMENT},
		{Query{Equal: one, After: good[:len(good)-1]}, messages.Code_CODE_INVALID_ARGUMENT},
		{Query{Equal: parse(t, `2`), After: good}, messages.Code_CODE_INVALID_ARGUMENT},
		{Query{Min: parse(t, `2`), After: good}, messages.Code_CODE_INVALID_ARGUMENT},
		{Query{Max: one, After: good}, messages.Code_CODE_INVALID_ARGUMENT},
		{Query{After: append(good, make([]byte, messages.KeyBytesMax)...)}, messages.Code_CODE_INVALID_ARGUMENT},
	}
	for i, tt := range tests {
		if c := look("n", tt.q); c != tt.code {
			t.Errorf("%d: %v, want %v", i, c, tt.code)
		}
	}
	bad := []struct {
		d     *messages.IndexDefinition
		max   uint64
		field string
	}{
		{nil, 1, "name"},
		{define("", "", byField("n")), 1, "name"},
		{define(strings.Repeat("n", messages.NameBytesMax+1), "", byField("n")), 1, "name"},
		{define("x", strings.Repeat("p", messages.KeyBytesMax+1), byField("n")), 1, "prefix"},
		{define("x", "", nil), 1, "extractor.by"},
		{define("x", "", byField("n")), 0, "entries_per_key_max"},
	}
	for i, tt := range bad {
		if _, err := w.table.Create(tt.d, tt.max); err == nil || err.Detail.GetField() != tt.field {
			t.Errorf("definition %d: %v", i, err)
		}
	}
}

func TestStep(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.put(fmt.Sprintf("p/%d", i), jsonContent(fmt.Sprintf(`{"n":%d}`, i)))
	}
	w.put("a", jsonContent(`{"n":1}`))
	w.put("q", jsonContent(`{"n":1}`))
	if _, err := w.table.Create(define("n", "p/", byField("n")), 10); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if w.table.Step("n", nil, 4, w.ascend) {
			t.Fatal("done")
		}
	}
	info, _ := w.table.View().Info("n")
	if string(info.Cursor) != "p/3" || info.Entries != 4 {
		t.Fatalf("a step with an old cursor must do nothing: %v", info)
	}
	w.put("p/2", Content{})                   // below the cursor: maintained
	w.put("p/25", jsonContent(`{"n":25}`))    // below
	w.put("p/3", jsonContent(`{"n":33}`))     // at
	w.put("p/5", Content{})                   // above: the step will not see it
	w.put("p/6", jsonContent(`{"n":66}`))     // above
	w.put("p/zz", jsonContent(`{"n":[7,8]}`)) // above
	steps := 0
	for w.step("n", 4) {
		steps++
	}
	if steps != 1 || len(w.table.Steps()) != 0 {
		t.Errorf("%d more steps than the last", steps)
	}
	if got := w.lookup("n", Query{}, 3); got != "p/0 p/1 p/4 p/7 p/zz p/8 p/9 p/25 p/3 p/6" {
		t.Errorf("%q", got)
	}
	if w.table.Step("n", nil, 4, w.ascend) || w.table.Step("x", nil, 4, w.ascend) {
		t.Error("a step of a ready or absent index did something")
	}
}

// TestStepStopsAtBytes: large values end a step before its keys are read.
func TestStepStopsAtBytes(t *testing.T) {
	w := newWorld(t)
	big := jsonContent(`{"n":1,"pad":"` + strings.Repeat("x", StepBytesMax/2) + `"}`)
	for i := range 5 {
		w.put(fmt.Sprint(i), big)
	}
	if _, err := w.table.Create(define("n", "", byField("n")), 10); err != nil {
		t.Fatal(err)
	}
	steps := 1
	for w.step("n", 10_000) {
		steps++
	}
	if steps != 3 {
		t.Errorf("%d steps", steps)
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "a": "b", "a\xff": "b", "\xff": "", "\xff\xff": "", "a\xfe\xff": "a\xff"} {
		if got := prefixEnd(prefix); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}

// TestUpdatePanics: a table that was told something else than the truth stops.
func TestUpdatePanics(t *testing.T) {
	for name, lie := range map[string]func(*Table){
		"removes what is not there": func(t *Table) { t.Update("x", jsonContent(`{"n":5}`), Content{}) },
		"adds what is there":        func(t *Table) { t.Update("k", Content{}, jsonContent(`{"n":1}`)) },
	} {
		w := newWorld(t)
		w.put("k", jsonContent(`{"n":1}`))
		w.ready(define("n", "", byField("n")), 10)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			lie(w.table)
		}()
	}
}
