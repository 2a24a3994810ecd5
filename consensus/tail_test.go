package consensus

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// tanLog writes records as Tan does and returns the file and where each begins.
func tanLog(sizes ...int) (file []byte, starts []int) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range sizes {
		payload := make([]byte, size)
		for i := range payload {
			payload[i] = byte(1 + rng.IntN(255))
		}
		for first := true; first || len(payload) > 0; first = false {
			if left := tanBlockBytes - len(file)%tanBlockBytes; left < tanHeaderBytes {
				file = append(file, make([]byte, left)...)
			}
			if first {
				starts = append(starts, len(file))
			}
			n := min(len(payload), tanBlockBytes-len(file)%tanBlockBytes-tanHeaderBytes)
			kind := byte(tanMiddle)
			switch last := n == len(payload); {
			case first && last:
				kind = tanFull
			case first:
				kind = tanFirst
			case last:
				kind = tanLast
			}
			chunk := append(make([]byte, tanHeaderBytes, tanHeaderBytes+n), payload[:n]...)
			binary.LittleEndian.PutUint16(chunk[4:], uint16(n))
			chunk[6] = kind
			binary.LittleEndian.PutUint32(chunk, uint32(xxhash.Sum64(chunk[6:])))
			file, payload = append(file, chunk...), payload[n:]
		}
	}
	return file, starts
}

// A loss of power is never taken for damage, and damage never for a sound log.
func TestTailTellsPowerLossFromDamage(t *testing.T) {
	file, starts := tanLog(100, 3_000, 40, 40_000, 70_000, 500, 1_500, 60, 900)
	if got := scanTail(file); got.State != TailIntact || got.Records != len(starts) {
		t.Fatalf("the whole file: %+v", got)
	}
	records := func(upTo int) (n int) {
		for n < len(starts)-1 && starts[n+1] <= upTo {
			n++
		}
		return n
	}
	for cut := 0; cut < len(file); cut += 64 - cut%7 {
		if got := scanTail(file[:cut]); got.State != TailIntact || got.Records < records(cut) {
			t.Fatalf("cut at %d: %+v", cut, got)
		}
		sector := cut - cut%sectorBytes
		zeroed := bytes.Clone(file)
		clear(zeroed[sector:])
		if got := scanTail(zeroed); got.State == TailDamaged || got.Records < records(sector) {
			t.Fatalf("nothing written from %d: %+v", sector, got)
		}
	}
	last := starts[len(starts)-1]
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		at, bit := rng.IntN(len(file)), rng.IntN(8)
		broken := bytes.Clone(file)
		broken[at] ^= 1 << bit
		got := scanTail(broken)
		if got.State == TailIntact && got.Records == len(starts) {
			continue // the filling of a block
		}
		// A longer length in the last record looks like a record cut short.
		if got.State != TailDamaged && (at < last || at >= last+tanHeaderBytes) {
			t.Fatalf("bit %d of byte %d flipped: %+v", bit, at, got)
		}
	}
}

func FuzzScanTail(f *testing.F) {
	file, _ := tanLog(10, 600, 33_000)
	f.Add(file, 700, byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at int, x byte) {
		if len(data) > 0 && at >= 0 {
			data[at%len(data)] ^= x
		}
		if got := scanTail(data); got.IntactBytes > got.Bytes || got.Records < 0 {
			t.Fatalf("%+v", got)
		}
	})
}
