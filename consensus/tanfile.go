package consensus

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Tan's record format: blocks of 32 KiB, each a row of chunks that do not cross a
// block, each with checksum, length and type.
const (
	tanBlockBytes  = 32 << 10
	tanHeaderBytes = 7

	tanFull, tanFirst, tanMiddle, tanLast = 1, 2, 3, 4

	sectorBytes = 512
)

// tanChunk returns the type and the end of the chunk at offset; 0 if it is not intact.
func tanChunk(data []byte, offset int) (kind byte, end int) {
	limit := min(len(data), offset-offset%tanBlockBytes+tanBlockBytes)
	if offset+tanHeaderBytes > limit {
		return 0, 0
	}
	header := data[offset:]
	end = offset + tanHeaderBytes + int(binary.LittleEndian.Uint16(header[4:]))
	if kind = header[6]; kind < tanFull || kind > tanLast || end > limit {
		return 0, 0
	}
	if uint32(xxhash.Sum64(data[offset+6:end])) != binary.LittleEndian.Uint32(header) {
		return 0, 0
	}
	return kind, end
}

func scanTail(data []byte) Tail {
	t := Tail{Bytes: int64(len(data))}
	offset, inRecord := 0, false
	for offset < len(data) {
		if left := tanBlockBytes - offset%tanBlockBytes; left < tanHeaderBytes {
			offset += left
			continue
		}
		kind, end := tanChunk(data, offset)
		starts := kind == tanFull || kind == tanFirst
		if kind == 0 || starts == inRecord {
			break
		}
		offset = end
		inRecord = kind == tanFirst || kind == tanMiddle
		if !inRecord {
			t.Records++
			t.IntactBytes = int64(end)
		}
	}
	if offset >= len(data) {
		return t // perhaps with a record cut short at the end of the file
	}
	switch {
	case unwritten(data, offset):
		// The sector was never written, whatever came of later ones: nothing in it or
		// after it was synced, and Tan drops it all by itself.
	case recordAfter(data, offset):
		t.State = TailDamaged
	case cutShort(data, offset):
		// The file ends before the record does: Tan drops it by itself.
	case missesSector(data, offset):
		t.State = TailTorn
	default:
		t.State = TailDamaged
	}
	return t
}

// recordAfter says whether an intact record begins after offset, where none does.
func recordAfter(data []byte, offset int) bool {
	for at := offset + 1; at+tanHeaderBytes <= len(data); at++ {
		if kind, end := tanChunk(data, at); (kind == tanFull || kind == tanFirst) && end-at > tanHeaderBytes {
			return true
		}
	}
	return false
}

// cutShort says whether the chunk at offset, which is not intact, begins as one
// should and goes on beyond the end of the file.
func cutShort(data []byte, offset int) bool {
	block := offset - offset%tanBlockBytes + tanBlockBytes
	if offset+tanHeaderBytes > len(data) {
		return len(data) < block
	}
	end := offset + tanHeaderBytes + int(binary.LittleEndian.Uint16(data[offset+4:]))
	kind := data[offset+6]
	return kind >= tanFull && kind <= tanLast && end > len(data) && end <= block
}

// missesSector says whether the chunk at offset lacks a whole sector. Disks write
// sectors whole or not at all, and one that was not written reads as zeros behind
// what it held before: without such a gap it is no loss of power that broke the
// record, and it may well have been acknowledged.
func missesSector(data []byte, offset int) bool {
	end := len(data)
	if offset+tanHeaderBytes <= len(data) {
		end = min(end, offset+tanHeaderBytes+int(binary.LittleEndian.Uint16(data[offset+4:])))
	}
	for at := offset; at < end; at += sectorBytes - at%sectorBytes {
		if unwritten(data, at) {
			return true
		}
	}
	return false
}

// unwritten says whether there are only zeros from offset to the end of its sector.
func unwritten(data []byte, offset int) bool {
	sector := data[offset:min(len(data), offset-offset%sectorBytes+sectorBytes)]
	return !slices.ContainsFunc(sector, func(b byte) bool { return b != 0 })
}
