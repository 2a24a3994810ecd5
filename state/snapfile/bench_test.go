package snapfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// benchmarkRows returns one SnapshotRow that fill changes into row i: 32 bytes of
// key and 256 of value, so 288 bytes each and some numbers.
func benchmarkRows(random bool) (row *messages.SnapshotRow, fill func(i int)) {
	value := make([]byte, 256)
	r := rand.NewPCG(1, 2)
	rec := &messages.Record{CreateRevision: 1, Version: 1}
	row = &messages.SnapshotRow{Row: &messages.SnapshotRow_Current{Current: rec}}
	return row, func(i int) {
		rec.Key = fmt.Appendf(rec.Key[:0], "tenant/0000007/object/%010d", i)
		rec.ModRevision = uint64(i + 1)
		if random {
			for o := 0; o < len(value); o += 8 {
				binary.LittleEndian.PutUint64(value[o:], r.Uint64())
			}
			rec.Value = value
			return
		}
		rec.Value = fmt.Appendf(value[:0], `{"kind":"order","id":%d,"owner":"user-%d","state":"%s","lines":[{"sku":"A-%06d","n":%d,"price":%d.%02d},{"sku":"B-%06d","n":1,"price":9.99}],"note":"some text that repeats from row to row, as such text does"}`,
			i, r.Uint64()%5000, []string{"new", "paid", "sent"}[r.Uint64()%3], r.Uint64()%1000000, r.Uint64()%9+1, r.Uint64()%500, r.Uint64()%100, r.Uint64()%1000000)
		rec.Value = append(rec.Value, bytes.Repeat([]byte{' '}, max(0, 256-len(rec.Value)))...)
	}
}

const benchmarkRowCount = 1_000_000

func benchmarkWrite(b *testing.B, out io.Writer, random bool) {
	w, err := NewWriter(out)
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Row(header()); err != nil {
		b.Fatal(err)
	}
	row, fill := benchmarkRows(random)
	for i := range benchmarkRowCount {
		fill(i)
		if err := w.Row(row); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkMillionRows writes and reads a million rows of 288 bytes. "make" is what of
// "write" is the benchmark's own.
func BenchmarkMillionRows(b *testing.B) {
	for _, kind := range []string{"json", "random"} {
		random := kind == "random"
		b.Run(kind+"/make", func(b *testing.B) {
			_, fill := benchmarkRows(random)
			for b.Loop() {
				for i := range benchmarkRowCount {
					fill(i)
				}
			}
		})
		b.Run(kind+"/write", func(b *testing.B) {
			b.SetBytes(288 * benchmarkRowCount)
			for b.Loop() {
				benchmarkWrite(b, io.Discard, random)
			}
		})
		var file bytes.Buffer
		b.Run(kind+"/read", func(b *testing.B) {
			if file.Len() == 0 {
				benchmarkWrite(b, &file, random)
			}
			b.SetBytes(288 * benchmarkRowCount)
			for b.Loop() {
				r, err := NewReader(bytes.NewReader(file.Bytes()))
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for ; err == nil; n++ {
					_, err = r.Next()
				}
				if r.Close(); err != io.EOF || n != benchmarkRowCount+2 {
					b.Fatalf("%d rows, %v", n, err)
				}
			}
			b.ReportMetric(float64(file.Len()), "file-bytes")
		})
	}
}
