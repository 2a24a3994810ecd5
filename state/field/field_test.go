package field

import (
	"slices"
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
)

const jsonType = "application/json"

func identity() *messages.Extractor {
	return &messages.Extractor{By: &messages.Extractor_Identity{Identity: true}}
}
func named(member string) *messages.Extractor {
	return &messages.Extractor{By: &messages.Extractor_Field{Field: member}}
}
func path(names ...string) *messages.Extractor {
	return &messages.Extractor{By: &messages.Extractor_Path_{Path: &messages.Extractor_Path{Names: names}}}
}
func element(n uint32) *messages.Extractor {
	return &messages.Extractor{By: &messages.Extractor_Element{Element: n}}
}

// TestOrder walks a ladder of values from the least to the greatest; the texts of
// one rung are equal.
func TestOrder(t *testing.T) {
	ladder := [][]string{
		{`null`},
		{`false`},
		{`true`},
		{`-1e1000`},
		{`-9007199254740993`},
		{`-9007199254740992`},
		{`-100`, `-1e2`},
		{`-99.5`},
		{`-10`}, {`-9.99`}, {`-9`},
		{`-1`, `-1.0`, `-10e-1`},
		{`-0.5`}, {`-0.05`}, {`-1e-1000`},
		{`0`, `-0`, `0.0`, `0e5`},
		{`1e-1000`}, {`0.05`}, {`0.5`}, {`0.51`},
		{`1`, `1.0`, `1e0`, `0.1e1`},
		{`1.01`}, {`9`}, {`10`, `1e1`}, {`11`}, {`99`}, {`100`}, {`101`},
		{`9007199254740992`}, {`9007199254740993`, `9007199254740993.0`}, {`9007199254740994`},
		{`1e1000`},
		{`""`}, {`"\u0000"`}, {`"\u0000\u0000"`}, {`"\u0001"`}, {`"A"`},
		{`"a"`, `"\u0061"`}, {`"a\u0000"`}, {`"a\u0001"`}, {`"aa"`}, {`"b"`}, {`"é"`}, {`"\uffff"`}, {`"😀"`, `"\ud83d\ude00"`},
		{`[]`}, {`[null]`}, {`[null,null]`}, {`[false]`}, {`[1]`}, {`[1,null]`}, {`[1,2]`}, {`[2]`}, {`["a"]`}, {`["a\u0000"]`}, {`["aa"]`}, {`[[]]`}, {`[[1]]`}, {`[{}]`},
		{`{}`},
		{`{"":null}`},
		{`{"a":null}`},
		{`{"a":1}`, ` { "a" : 1.0 } `},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`},
		{`{"a":1,"b":3}`},
		{`{"a":1,"c":0}`},
		{`{"a":2}`},
		{`{"a\u0000":1}`},
		{`{"aa":0}`},
		{`{"b":0}`},
	}
	var values []Value
	var rungs []int
	for r, texts := range ladder {
		for _, text := range texts {
			v, err := ParseJSON([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			values, rungs = append(values, v), append(rungs, r)
		}
	}
	for i, a := range values {
		for j, b := range values {
			want := 0
			if rungs[i] < rungs[j] {
				want = -1
			} else if rungs[i] > rungs[j] {
				want = 1
			}
			if got := Compare(a, b); got != want {
				t.Errorf("compare %s with %s: %d, want %d", a.JSON(), b.JSON(), got, want)
			}
			if a != b && strings.HasPrefix(string(a), string(b)) {
				t.Errorf("%s is a prefix of %s", b.JSON(), a.JSON())
			}
		}
	}
}

func TestExtract(t *testing.T) {
	const doc = ` {"a":{"b":{"c":[1,2]}},"n":9007199254740993,"list":[10,null,"x",[1]],"":7,"q\"é":8,"nul":null} `
	deep := strings.Repeat(`{"a":`, 64) + `1` + strings.Repeat(`}`, 64)
	deepNames := slices.Repeat([]string{"a"}, 64)
	tests := []struct {
		name     string
		x        *messages.Extractor
		ct, text string
		want     string // JSON
	}{
		{"field", named("n"), jsonType, doc, `9007199254740993`},
		{"field, parameters", named("n"), "Application/JSON ; charset=utf-8", doc, `9007199254740993`},
		{"field of another type", named("n"), "text/plain", doc, `null`},
		{"field of no type", named("n"), "", doc, `null`},
		{"field of a suffix type", named("n"), "application/problem+json", doc, `null`},
		{"field absent", named("zz"), jsonType, doc, `null`},
		{"field null", named("nul"), jsonType, doc, `null`},
		{"field empty name", named(""), jsonType, doc, `7`},
		{"field escaped", named(`q"é`), jsonType, doc, `8`},
		{"field written in escapes", named("ab"), jsonType, `{"\u0061\u0062":3}`, `3`},
		{"field named like the escape", named(`\u0061`), jsonType, `{"\u0061":3}`, `null`},
		{"field of an array", named("0"), jsonType, `[1]`, `null`},
		{"field of a string", named("a"), jsonType, `"a"`, `null`},
		{"path", path("a", "b", "c"), jsonType, doc, `[1,2]`},
		{"path of one", path("n"), jsonType, doc, `9007199254740993`},
		{"path through a number", path("n", "x"), jsonType, doc, `null`},
		{"path through an array", path("list", "0"), jsonType, doc, `null`},
		{"path, same name below", path("b"), jsonType, doc, `null`},
		{"path deep", path(deepNames...), jsonType, deep, `1`},
		{"path none", path(), jsonType, doc, `null`},
		{"element", element(1), jsonType, ` [ 1 , {"x":[]} ] `, `{"x":[]}`},
		{"element first", element(0), jsonType, `["a"]`, `"a"`},
		{"element beyond", element(2), jsonType, `[1,2]`, `null`},
		{"element max", element(1<<32 - 1), jsonType, `[1,2]`, `null`},
		{"element of an object", element(0), jsonType, `{"0":1}`, `null`},
		{"element inside only", element(1), jsonType, `[[1,2]]`, `null`},
		{"identity", identity(), jsonType, ` [1, {"b":1,"a":2}] `, `[1,{"a":2,"b":1}]`},
		{"identity scalar", identity(), jsonType, ` 1.50 `, `1.5`},
		{"identity of text", identity(), "text/plain", `{"a":1}`, `"{\"a\":1}"`},
		{"identity of no type", identity(), "", ``, `""`},
		{"identity of bad JSON", identity(), jsonType, `{`, `null`},
		{"identity false", &messages.Extractor{By: &messages.Extractor_Identity{}}, "", `x`, `null`},
		{"no extractor", nil, jsonType, doc, `null`},
		{"an error behind the part", named("a"), jsonType, `{"a":1,"b":01}`, `null`},
		{"a duplicate elsewhere", named("a"), jsonType, `{"a":1,"b":{"c":1,"c":2}}`, `null`},
		{"a long number elsewhere", named("a"), jsonType, `{"a":1,"b":1e1001}`, `null`},
		{"data behind", named("a"), jsonType, `{"a":1} {}`, `null`},
	}
	var p Parser
	for _, tt := range tests {
		got := Extract(tt.x, tt.ct, tt.text)
		if got.JSON() != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got.JSON(), tt.want)
		}
		if again := p.Extract(tt.x, tt.ct, tt.text); again != got {
			t.Errorf("%s: a used parser says %s, a new one %s", tt.name, again.JSON(), got.JSON())
		}
	}
}

// TestScanMany reads several parts, nested in each other, in one pass.
func TestScanMany(t *testing.T) {
	xs := []*messages.Extractor{identity(), named("a"), path("a", "b"), path("a", "c"), named("z"), path("a", "b")}
	paths := make([]Path, len(xs))
	for i, x := range xs {
		paths[i] = Compile(x)
	}
	var p Parser
	for _, text := range []string{`{"a":{"b":[1,2],"c":"x"},"z":null}`, `{"a":1}`, `[`, `{"a":{"b":1,"c":2}`, `{"z":{"a":{"b":1}}}`} {
		for _, ct := range []string{jsonType, "text/plain"} {
			p.Scan(paths, ct, text)
			for i, x := range xs {
				if got, want := Value(p.AppendValue(nil, i)), Extract(x, ct, text); got != want {
					t.Errorf("%s of %s: %s together, %s alone", x, text, got.JSON(), want.JSON())
				}
			}
		}
	}
}

func TestExtractEach(t *testing.T) {
	tests := []struct {
		text      string
		max       int
		want      string
		truncated bool
	}{
		{`{"l":[3,1,null,3,"a",[1],{"x":1}]}`, 10, `3 1 3 "a" [1] {"x":1}`, false},
		{`{"l":[3,1,null,3]}`, 3, `3 1 3`, false},
		{`{"l":[3,1,null,3]}`, 2, `3 1`, true},
		{`{"l":[3,1,null,null]}`, 2, `3 1`, false},
		{`{"l":[]}`, 10, ``, false},
		{`{"l":null}`, 10, ``, false},
		{`{}`, 10, ``, false},
		{`{"l":"x"}`, 1, `"x"`, false},
		{`{"l":"x"}`, 0, ``, true},
		{`{"l":{"a":[1]}}`, 10, `{"a":[1]}`, false},
		{`{"l":[1,2}`, 10, ``, false},
	}
	for _, tt := range tests {
		var got []string
		truncated := ExtractEach(named("l"), jsonType, tt.text, tt.max, func(v Value) { got = append(got, v.JSON()) })
		if s := strings.Join(got, " "); s != tt.want || truncated != tt.truncated {
			t.Errorf("%s max %d: %q truncated=%v, want %q truncated=%v", tt.text, tt.max, s, truncated, tt.want, tt.truncated)
		}
	}
}

func TestIdentityOfBytes(t *testing.T) {
	for _, raw := range []string{"", "\x00", "\x00\xff", "\xff\xfe", "a\x00\x01b", string(make([]byte, 1000))} {
		v := Extract(identity(), "application/octet-stream", raw)
		if v != String(raw) || Len(string(v)) != len(v) {
			t.Errorf("%q gives %x", raw, string(v))
		}
	}
	if Compare(String("\x00"), String("\x00\x00")) >= 0 || Compare(String("\xfe"), String("\xff")) >= 0 {
		t.Error("strings of bytes out of order")
	}
}

func TestValidateExtractor(t *testing.T) {
	tests := []struct {
		x     *messages.Extractor
		field string // "" accepts
	}{
		{identity(), ""}, {named("a"), ""}, {named(""), ""}, {path("a", "b"), ""}, {element(5), ""},
		{path(slices.Repeat([]string{"a"}, 64)...), ""},
		{named(strings.Repeat("n", messages.FieldNameBytesMax)), ""},
		{nil, "by"}, {&messages.Extractor{}, "by"},
		{&messages.Extractor{By: &messages.Extractor_Identity{}}, "identity"},
		{&messages.Extractor{By: &messages.Extractor_Path_{}}, "path.names"},
		{path(), "path.names"},
		{path(slices.Repeat([]string{"a"}, 65)...), "path.names"},
		{path("a", "\xff"), "path.names[1]"},
		{named(strings.Repeat("n", messages.FieldNameBytesMax+1)), "field"},
		{named("\xff"), "field"},
	}
	for _, tt := range tests {
		err := ValidateExtractor(tt.x)
		if got := fieldOf(err); (err == nil) != (tt.field == "") || got != tt.field {
			t.Errorf("%v: %v, want field %q", tt.x, err, tt.field)
		}
	}
}

func TestParseErrorIsOurs(t *testing.T) {
	_, err := ParseJSON([]byte(`{"a":`))
	if messages.CodeOf(err) != messages.Code_CODE_INVALID_ARGUMENT || messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED {
		t.Errorf("%v", err)
	}
}

// TestGoodAfterBad: what a parser refused leaves no trace in its next answer.
func TestGoodAfterBad(t *testing.T) {
	var p Parser
	for _, bad := range []string{``, `{`, `{"a":{"a":1`, `[1,`, `{"a":1,"a":2}`, strings.Repeat(`[`, 1_000_000), `"`, `{"a":1e5000}`} {
		if v := p.Extract(named("a"), jsonType, bad); v != Null {
			t.Errorf("%.20q gave %s", bad, v.JSON())
		}
		if v := p.Extract(named("a"), jsonType, `{"a":[true]}`); v.JSON() != `[true]` {
			t.Errorf("after %.20q: %s", bad, v.JSON())
		}
	}
}

func TestNoAllocation(t *testing.T) {
	var p Parser
	paths := []Path{Compile(named("kind")), Compile(path("meta", "owner"))}
	const text = `{"kind":"pod","meta":{"owner":"x","n":[1,2,3]}}`
	var dst []byte
	allocs := testing.AllocsPerRun(1000, func() {
		p.Scan(paths, jsonType, text)
		dst = p.AppendValue(dst[:0], 0)
		dst = p.AppendValue(dst, 1)
	})
	if allocs > 1 {
		t.Errorf("%v allocations a scan", allocs)
	}
}

func fieldOf(err *messages.Error) string {
	if err == nil {
		return ""
	}
	return err.Detail.GetField()
}
