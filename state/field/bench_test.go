package field

import (
	"fmt"
	"strings"
	"testing"
)

// benchmarkDocument returns an object of about size bytes with "kind" near its start
// and "meta"."owner" near its end.
func benchmarkDocument(size int) string {
	var b strings.Builder
	b.WriteString(`{"kind":"deployment","replicas":3,"labels":{"app":"web","tier":"front"}`)
	for i := 0; b.Len() < size-60; i++ {
		fmt.Fprintf(&b, `,"field%03d":{"n":%d,"s":"text %d","l":[1,2.5,true]}`, i, i*7919, i)
	}
	b.WriteString(`,"meta":{"owner":"team-a","generation":12345678}}`)
	return b.String()
}

func BenchmarkTwoFields(b *testing.B) {
	paths := []Path{Compile(named("kind")), Compile(path("meta", "owner"))}
	for _, size := range []int{268, 3200, 1 << 20} {
		text := benchmarkDocument(size)
		b.Run(fmt.Sprintf("bytes=%d", len(text)), func(b *testing.B) {
			var p Parser
			var dst []byte
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				p.Scan(paths, jsonType, text)
				dst = p.AppendValue(dst[:0], 0)
				dst = p.AppendValue(dst, 1)
			}
			if want := string(String("deployment") + String("team-a")); string(dst) != want {
				b.Fatalf("%x", dst)
			}
		})
	}
}

func BenchmarkIdentity(b *testing.B) {
	for _, size := range []int{268, 3200} {
		text := benchmarkDocument(size)
		b.Run(fmt.Sprintf("bytes=%d", len(text)), func(b *testing.B) {
			var p Parser
			x := identity()
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if p.Extract(x, jsonType, text) == Null {
					b.Fatal("null")
				}
			}
		})
	}
}

// BenchmarkExtractAlone is the function without a parser to reuse: a field compare.
func BenchmarkExtractAlone(b *testing.B) {
	text := benchmarkDocument(268)
	x := named("replicas")
	b.ReportAllocs()
	for b.Loop() {
		if Extract(x, jsonType, text) == Null {
			b.Fatal("null")
		}
	}
}
