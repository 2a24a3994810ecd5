package field

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/concord-kv/concord/messages"
)

// The reference: the rules of the package document written again, with the standard
// decoder's tokens and math/big, and nothing of the package.

// refParse returns nil, bool, *big.Rat, string, []any or map[string]any.
func refParse(text []byte) (any, error) {
	if !utf8.Valid(text) || !json.Valid(text) || loneSurrogate(text) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := refValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

func refValue(d *json.Decoder, depth int) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Number:
		return refNumber(string(tok))
	case json.Delim:
		if depth == messages.JSONDepthMax {
			return nil, errors.New("too deep")
		}
		if tok == '[' {
			list := []any{}
			for d.More() {
				v, err := refValue(d, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := d.Token()
			return list, err
		}
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			if _, twice := object[name.(string)]; twice {
				return nil, errors.New("twice")
			}
			if object[name.(string)], err = refValue(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return object, err
	}
	return tok, nil
}

func refNumber(lit string) (*big.Rat, error) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(lit), "e")
	if digits := len(strings.Trim(strings.Replace(mantissa, ".", "", 1), "-")); digits > messages.NumberDigitsMax {
		return nil, errors.New("digits")
	}
	if exponent != "" {
		e, ok := new(big.Int).SetString(exponent, 10)
		if !ok || e.CmpAbs(big.NewInt(messages.NumberExponentMax)) > 0 {
			return nil, errors.New("exponent")
		}
	}
	r, ok := new(big.Rat).SetString(lit)
	if !ok {
		return nil, fmt.Errorf("math/big does not take %s", lit)
	}
	return r, nil
}

// loneSurrogate says that valid JSON holds an escape that is half a character.
func loneSurrogate(text []byte) bool {
	unit := func(i int) (u uint16) {
		if i+6 <= len(text) && text[i] == '\\' && text[i+1] == 'u' {
			fmt.Sscanf(string(text[i+2:i+6]), "%04x", &u)
		}
		return u
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		switch u := unit(i); { //nolint:staticcheck // ranges of code units, not values
		case u>>10 == 0xD800>>10:
			if unit(i+6)>>10 != 0xDC00>>10 {
				return true
			}
			i += 11
		case u>>10 == 0xDC00>>10:
			return true
		default:
			i++
		}
	}
	return false
}

func refRank(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case *big.Rat:
		return 2
	case string:
		return 3
	case []any:
		return 4
	}
	return 5
}

func refCompare(a, b any) int {
	if c := cmp.Compare(refRank(a), refRank(b)); c != 0 || a == nil {
		return c
	}
	switch a := a.(type) {
	case bool:
		switch {
		case a == b.(bool):
			return 0
		case a:
			return 1
		}
		return -1
	case *big.Rat:
		return a.Cmp(b.(*big.Rat))
	case string:
		return strings.Compare(a, b.(string))
	case []any:
		return slices.CompareFunc(a, b.([]any), refCompare)
	}
	pairs := func(v any) (out []any) {
		m := v.(map[string]any)
		names := make([]string, 0, len(m))
		for n := range m {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			out = append(out, n, m[n])
		}
		return out
	}
	return slices.CompareFunc(pairs(a), pairs(b), refCompare)
}

// agree checks everything the reference can tell about two texts.
func agree(t *testing.T, a, b []byte) {
	t.Helper()
	va, errA := ParseJSON(a)
	vb, errB := ParseJSON(b)
	ra, refA := refParse(a)
	rb, refB := refParse(b)
	if (errA == nil) != (refA == nil) {
		t.Fatalf("%q: %v, reference %v", a, errA, refA)
	}
	if (errB == nil) != (refB == nil) {
		t.Fatalf("%q: %v, reference %v", b, errB, refB)
	}
	for _, v := range []Value{va, vb} {
		if Len(string(v)+"\xff tail") != len(v) {
			t.Fatalf("%x does not know its length", string(v))
		}
		if again, err := ParseJSON([]byte(v.JSON())); err != nil || again != v {
			t.Fatalf("%x as text %q is %x %v", string(v), v.JSON(), string(again), err)
		}
	}
	if errA != nil || errB != nil {
		return
	}
	if got, want := Compare(va, vb), refCompare(ra, rb); got != want {
		t.Fatalf("compare %q with %q: %d, reference %d", a, b, got, want)
	}
}

func FuzzAgainstReference(f *testing.F) {
	all := vectors(f)
	for i, v := range all {
		f.Add([]byte(v.text), []byte(all[(i*7+1)%len(all)].text))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a)+len(b) > 1<<14 {
			return
		}
		agree(t, a, b)
	})
}

// FuzzExtract: extractors never panic, and do not depend on the parser's past.
func FuzzExtract(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.text), "a", "b", uint32(1), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, n1, n2 string, e uint32, isJSON bool) {
		ct := "text/plain"
		if isJSON {
			ct = jsonType
		}
		xs := []*messages.Extractor{identity(), named(n1), path(n1, n2), element(e)}
		var p Parser
		paths := make([]Path, len(xs))
		for i, x := range xs {
			paths[i] = Compile(x)
		}
		p.Scan(paths, ct, string(text))
		root, refErr := refParse(text)
		for i, x := range xs {
			got := Extract(x, ct, string(text))
			if together := Value(p.AppendValue(nil, i)); together != got {
				t.Fatalf("%v of %q: %s together, %s alone", x, text, together.JSON(), got.JSON())
			}
			if i == 0 && !isJSON {
				if got != String(string(text)) {
					t.Fatalf("identity of bytes %q: %x", text, string(got))
				}
				continue
			}
			var part any
			if isJSON && refErr == nil {
				part = refPart(root, i, n1, n2, e)
			}
			if want := refEncode(t, part); got != want {
				t.Fatalf("%v of %q: %s, reference %s", x, text, got.JSON(), want.JSON())
			}
		}
	})
}

// refPart follows extractor i of FuzzExtract through a reference value.
func refPart(root any, i int, n1, n2 string, e uint32) any {
	switch i {
	case 1, 2:
		m, _ := root.(map[string]any)
		if i == 1 {
			return m[n1]
		}
		m, _ = m[n1].(map[string]any)
		return m[n2]
	case 3:
		if list, _ := root.([]any); int64(e) < int64(len(list)) {
			return list[e]
		}
		return nil
	}
	return root
}

// refEncode finds the encoding of a reference value through text of its own.
func refEncode(t *testing.T, v any) Value {
	var text func(v any) string
	text = func(v any) string {
		switch v := v.(type) {
		case *big.Rat:
			return refLiteral(v)
		case []any:
			parts := make([]string, len(v))
			for i := range v {
				parts[i] = text(v[i])
			}
			return "[" + strings.Join(parts, ",") + "]"
		case map[string]any:
			var parts []string
			for n := range v { // any order: the encoding must not depend on it
				q, _ := json.Marshal(n)
				parts = append(parts, string(q)+":"+text(v[n]))
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		q, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(q)
	}
	s := text(v)
	got, err := ParseJSON([]byte(s))
	if err != nil {
		t.Fatalf("reference text %q: %v", s, err)
	}
	return got
}

// refLiteral writes a decimal number as digits and an exponent within the limits.
func refLiteral(r *big.Rat) string {
	if r.Sign() == 0 {
		return "0"
	}
	exp := 0
	ten := big.NewRat(10, 1)
	tenth := big.NewRat(1, 10)
	r = new(big.Rat).Set(r)
	for !r.IsInt() && exp > -messages.NumberExponentMax {
		r.Mul(r, ten)
		exp--
	}
	if !r.IsInt() {
		return r.FloatString(messages.NumberDigitsMax-1) + fmt.Sprintf("e%d", exp)
	}
	for q := new(big.Rat).Mul(r, tenth); q.IsInt() && exp < messages.NumberExponentMax; q = new(big.Rat).Mul(r, tenth) {
		r = q
		exp++
	}
	return fmt.Sprintf("%se%d", r.Num(), exp)
}
