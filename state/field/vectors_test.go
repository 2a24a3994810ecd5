package field

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// vector is one line of testdata/vectors.txt.
type vector struct {
	line     int
	text     string // JSON text
	refused  bool
	json     string // canonical
	encoding string // hex
}

// vectors reads the golden vectors. They are never written by a test: what engine 1
// says of these texts is a promise to every index that exists.
func vectors(t testing.TB) []vector {
	t.Helper()
	f, err := os.Open("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []vector
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		text, want, ok := strings.Cut(line, " => ")
		if !ok {
			t.Fatalf("testdata/vectors.txt:%d: no =>", n)
		}
		v := vector{line: n, refused: want == "refused"}
		if v.text, err = strconv.Unquote(text); err != nil {
			t.Fatalf("testdata/vectors.txt:%d: %v", n, err)
		}
		if !v.refused {
			i := strings.LastIndexByte(want, ' ')
			if v.json, err = strconv.Unquote(want[:i]); err != nil {
				t.Fatalf("testdata/vectors.txt:%d: %v", n, err)
			}
			v.encoding = want[i+1:]
		}
		out = append(out, v)
	}
	return out
}

func TestVectors(t *testing.T) {
	seen := 0
	for _, v := range vectors(t) {
		seen++
		got, err := ParseJSON([]byte(v.text))
		if v.refused {
			if err == nil || got != Null {
				t.Errorf("vectors.txt:%d: %.80q accepted as %x", v.line, v.text, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("vectors.txt:%d: %.80q: %v", v.line, v.text, err)
			continue
		}
		if h := hex.EncodeToString([]byte(got)); h != v.encoding || got.JSON() != v.json {
			t.Errorf("vectors.txt:%d: %.80q is %q %s, want %q %s", v.line, v.text, got.JSON(), h, v.json, v.encoding)
		}
	}
	if seen < 100 {
		t.Fatalf("only %d vectors", seen)
	}
}

// TestPrintVectors prints lines for new vectors: go test -run PrintVectors -v, with
// the texts, quoted, in FIELD_VECTORS, one a line.
func TestPrintVectors(t *testing.T) {
	in := os.Getenv("FIELD_VECTORS")
	if in == "" {
		t.Skip("no FIELD_VECTORS")
	}
	for _, q := range strings.Split(strings.TrimSpace(in), "\n") {
		text, err := strconv.Unquote(q)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		if v, err := ParseJSON([]byte(text)); err != nil {
			fmt.Printf("%s => refused\n", q)
		} else {
			fmt.Printf("%s => %q %x\n", q, v.JSON(), string(v))
		}
	}
}
