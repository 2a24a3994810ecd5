package snapfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"testing"

	"github.com/concord-kv/concord/messages"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// blocks cuts a file into its header and its blocks.
func blocks(file []byte) (head []byte, out [][]byte) {
	head, file = file[:fileHeaderBytes], file[fileHeaderBytes:]
	for len(file) > 0 {
		n := blockHeaderBytes + int(getBlockHeader((*[blockHeaderBytes]byte)(file)).stored)
		out = append(out, file[:n])
		file = file[n:]
	}
	return head, out
}

func TestAnyPrefixIsRefused(t *testing.T) {
	rows := everyTable()
	file := write(t, rows, 128)
	for n := range len(file) {
		e := refused(t, fmt.Sprintf("the first %d bytes of %d", n, len(file)), file[:n], rows)
		if e.Offset != int64(n) {
			t.Fatalf("torn at %d, reported at %d", n, e.Offset)
		}
	}
}

func TestAnyBitFlipIsRefused(t *testing.T) {
	rows := everyTable()
	file := write(t, rows, 256)
	for bit := range len(file) * 8 {
		damaged := slices.Clone(file)
		damaged[bit/8] ^= 1 << (bit % 8)
		e := refused(t, fmt.Sprintf("bit %d", bit), damaged, rows)
		if e.Offset > int64(bit/8) {
			t.Fatalf("bit %d flipped, in byte %d, reported at %d", bit, bit/8, e.Offset)
		}
	}
}

func TestAnyByteChangeIsRefused(t *testing.T) {
	rows := everyTable()
	file := write(t, rows, 256)
	for i := range file {
		for _, b := range []byte{0x00, 0xFF, ^file[i], file[i] + 1} {
			if b == file[i] {
				continue
			}
			damaged := slices.Clone(file)
			damaged[i] = b
			refused(t, fmt.Sprintf("byte %d", i), damaged, rows)
		}
	}
}

// TestMisplacedBlocks swaps, drops and repeats whole blocks, and takes them from a
// file that differs in one row.
func TestMisplacedBlocks(t *testing.T) {
	rows := everyTable()
	file := write(t, rows, 128)
	head, all := blocks(file)
	if len(all) < 5 {
		t.Fatalf("only %d blocks", len(all))
	}
	build := func(parts ...[]byte) []byte { return bytes.Join(append([][]byte{head}, parts...), nil) }
	for i := range all {
		dropped := slices.Delete(slices.Clone(all), i, i+1)
		refused(t, fmt.Sprintf("block %d dropped", i), build(dropped...), rows)
		repeated := slices.Insert(slices.Clone(all), i, all[i])
		refused(t, fmt.Sprintf("block %d twice", i), build(repeated...), rows)
		for j := range i {
			swapped := slices.Clone(all)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			refused(t, fmt.Sprintf("blocks %d and %d swapped", j, i), build(swapped...), rows)
		}
	}
	other := everyTable()
	other[0].GetHeader().AppliedIndex++
	_, others := blocks(write(t, other, 128))
	for i := 1; i < len(all); i++ {
		mixed := slices.Clone(all)
		mixed[i] = others[i]
		refused(t, fmt.Sprintf("block %d of another file", i), build(mixed...), rows)
		refused(t, fmt.Sprintf("blocks from %d of another file", i), build(append(slices.Clone(all[:i]), others[i:]...)...), rows)
	}
}

func TestTrailingBytesAreRefused(t *testing.T) {
	rows := everyTable()
	file := write(t, rows, 256)
	_, all := blocks(file)
	tails := [][]byte{all[0], all[len(all)-1], file, make([]byte, 4096)}
	for b := range 256 {
		tails = append(tails, []byte{byte(b)})
	}
	for _, tail := range tails {
		e := refused(t, fmt.Sprintf("with %d bytes behind", len(tail)), append(slices.Clone(file), tail...), rows)
		if e.Offset != int64(len(file)) {
			t.Fatalf("reported at %d, the file ends at %d", e.Offset, len(file))
		}
	}
}

// forge makes a file of one well-formed block after another around any content.
func forge(t testing.TB, content []byte, blockBytes int, change func(*blockHeader)) []byte {
	t.Helper()
	enc, err := newEncoder()
	if err != nil {
		t.Fatal(err)
	}
	file, chain := fileHeader()
	for n := uint32(0); ; n++ {
		raw := content[:min(len(content), blockBytes)]
		content = content[len(raw):]
		data := enc.EncodeAll(raw, nil)
		h := blockHeader{kind: kindMore, number: n, raw: uint32(len(raw)), stored: uint32(len(data)), checksum: crc32.Checksum(data, castagnoli)}
		if len(content) == 0 {
			h.kind = kindLast
		}
		if change != nil {
			change(&h)
		}
		var b [blockHeaderBytes]byte
		chain = h.put(&b, chain)
		file = append(append(file, b[:]...), data...)
		if len(content) == 0 {
			return file
		}
	}
}

func encoded(t testing.TB, rows ...*messages.SnapshotRow) (content []byte) {
	t.Helper()
	for _, r := range rows {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		content = protowire.AppendBytes(content, b)
	}
	return content
}

func footer(rows uint64) *messages.SnapshotRow {
	return &messages.SnapshotRow{Row: &messages.SnapshotRow_Footer{Footer: &messages.SnapshotFooter{Rows: rows}}}
}

// TestWellFormedNonsense: checksums that hold do not make up for content that is
// wrong.
func TestWellFormedNonsense(t *testing.T) {
	rows := []*messages.SnapshotRow{header(), current("a", "1")}
	good := encoded(t, header(), current("a", "1"), footer(2))
	claim := func(n uint32) func(*blockHeader) { return func(h *blockHeader) { h.rows = n } }
	if _, err := read(forge(t, good, BlockBytesMax, claim(3))); err != nil {
		t.Fatalf("the good file: %v", err)
	}
	unknown := append(encoded(t, header()), protowire.AppendBytes(nil, protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))...)
	extra, _ := proto.Marshal(current("a", "1"))
	extra = protowire.AppendVarint(protowire.AppendTag(extra, 99, protowire.VarintType), 1)
	tests := []struct {
		name    string
		content []byte
		change  func(*blockHeader)
	}{
		{"no footer", encoded(t, header(), current("a", "1")), claim(2)},
		{"footer of fewer", encoded(t, header(), current("a", "1"), footer(1)), claim(3)},
		{"footer of more", encoded(t, header(), current("a", "1"), footer(3)), claim(3)},
		{"two footers", encoded(t, header(), current("a", "1"), footer(2), footer(3)), claim(4)},
		{"a row after the footer", encoded(t, header(), footer(1), current("a", "1")), claim(3)},
		{"a byte after the footer", append(slices.Clone(good), 0), claim(3)},
		{"no header", encoded(t, current("a", "1"), footer(1)), claim(2)},
		{"two headers", encoded(t, header(), header(), footer(2)), claim(3)},
		{"a table out of order", encoded(t, header(), current("a", "1"), everyTable()[1], footer(3)), claim(4)},
		{"an empty row", append(encoded(t, header(), current("a", "1")), 0), claim(3)},
		{"a row of an unknown table", unknown, claim(2)},
		{"a row with an unknown field", protowire.AppendBytes(encoded(t, header()), extra), claim(2)},
		{"a row that is no protobuf", append(encoded(t, header()), 3, 0xFF, 0xFF, 0xFF), claim(2)},
		{"a length without end", append(encoded(t, header()), bytes.Repeat([]byte{0x80}, 20)...), claim(2)},
		{"a length too large", binary.AppendUvarint(encoded(t, header()), RowBytesMax+1), claim(2)},
		{"a length of nothing", binary.AppendUvarint(encoded(t, header()), RowBytesMax), claim(2)},
		{"rows miscounted", good, claim(2)},
		{"kind 0", good, func(h *blockHeader) { h.rows, h.kind = 3, 0 }},
		{"kind 3", good, func(h *blockHeader) { h.rows, h.kind = 3, 3 }},
		{"kind more at the end", good, func(h *blockHeader) { h.rows, h.kind = 3, kindMore }},
		{"number 1", good, func(h *blockHeader) { h.rows, h.number = 3, 1 }},
		{"decompressed 0", good, func(h *blockHeader) { h.rows, h.raw = 3, 0 }},
		{"decompressed one less", good, func(h *blockHeader) { h.rows = 3; h.raw-- }},
		{"decompressed one more", good, func(h *blockHeader) { h.rows = 3; h.raw++ }},
		{"decompressed huge", good, func(h *blockHeader) { h.rows, h.raw = 3, 1<<32-1 }},
		{"stored 0", good, func(h *blockHeader) { h.rows, h.stored = 3, 0 }},
		{"stored huge", good, func(h *blockHeader) { h.rows, h.stored = 3, 1<<32-1 }},
		{"nothing", nil, nil},
	}
	for _, tt := range tests {
		for _, blockBytes := range []int{50, BlockBytesMax} {
			if blockBytes == 50 && tt.change != nil && tt.name != "no footer" {
				continue // what is claimed is of the whole file
			}
			refused(t, tt.name, forge(t, tt.content, blockBytes, tt.change), rows)
		}
	}
}

// TestMemoryIsBounded: a small file cannot make the reader allocate what it claims.
func TestMemoryIsBounded(t *testing.T) {
	tests := map[string][]byte{
		"a row of 1 GiB":   forge(t, append(binary.AppendUvarint(encoded(t, header()), RowBytesMax), make([]byte, 1000)...), BlockBytesMax, nil),
		"a block of 4 GiB": forge(t, encoded(t, header()), BlockBytesMax, func(h *blockHeader) { h.raw, h.stored = 1<<32-1, 1<<32-1 }),
		"a bomb": func() []byte { // a block that says 100 bytes and holds a gibibyte
			enc, err := newEncoder()
			if err != nil {
				t.Fatal(err)
			}
			frame := enc.EncodeAll(make([]byte, 1<<20), nil)
			data := bytes.Repeat(frame, 1000)
			file, chain := fileHeader()
			h := blockHeader{kind: kindLast, raw: 100, stored: uint32(len(data)), checksum: crc32.Checksum(data, castagnoli)}
			var b [blockHeaderBytes]byte
			h.put(&b, chain)
			return append(append(file, b[:]...), data...)
		}(),
	}
	for name, file := range tests {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		refused(t, name, file, []*messages.SnapshotRow{header()})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 24<<20 {
			t.Errorf("%s: %d bytes allocated for a file of %d", name, n, len(file))
		}
	}
}
