package snapfile

import (
	"bufio"
	"io"

	"github.com/concord-kv/concord/messages"
	"google.golang.org/protobuf/proto"
)

// Info describes a snapshot file of either version.
type Info struct {
	// Version of the format, 1 or 2; 0 when not even that can be told.
	Version uint32
	// Header of a version 2 file.
	Header *messages.SnapshotHeader
	// HeaderV1 of a version 1 file.
	HeaderV1 *messages.SnapshotV1Header

	// Tables that have rows, in the order of the file. A version 1 file has one,
	// "current".
	Tables []TableInfo
	// Rows of all tables, the header of a version 2 file included, the footer not.
	Rows uint64

	FileBytes int64  // read from the file
	RawBytes  uint64 // of the content when decompressed
	Blocks    uint32 // 0 for version 1
}

// TableInfo describes one table of a file.
type TableInfo struct {
	Table Table
	Rows  uint64
	Bytes uint64 // encoded, without compression
	// Largest is the bytes of its largest row.
	Largest uint64
}

// Inspect reads a whole file of either version and describes it. With an error, which
// says what is wrong with the file and where, Info is what was found before that.
func Inspect(r io.Reader) (*Info, error) {
	info := &Info{}
	counted := &countingReader{r: r}
	in := bufio.NewReaderSize(counted, 64<<10)
	defer func() { info.FileBytes = counted.n }()
	if head, _ := in.Peek(len(magic)); string(head) != magic {
		return info, info.inspectV1(in)
	}
	return info, info.inspectV2(in)
}

func (info *Info) inspectV2(in io.Reader) error {
	info.Version = formatVersion
	r, err := NewReader(in)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		row, err := r.Next()
		info.Blocks, info.RawBytes = r.number, r.raw
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h := row.GetHeader(); h != nil {
			info.Header = h
		}
		info.count(TableOf(row), r.size)
	}
}

func (info *Info) inspectV1(in io.Reader) error {
	return ReadV1(in, func(h *messages.SnapshotV1Header) error {
		info.Version, info.HeaderV1 = 1, h
		info.RawBytes += uint64(proto.Size(h))
		return nil
	}, func(row *messages.SnapshotV1Row) error {
		size := proto.Size(row)
		info.RawBytes += uint64(size)
		info.count(TableCurrent, size)
		return nil
	})
}

func (info *Info) count(t Table, size int) {
	if n := len(info.Tables); n == 0 || info.Tables[n-1].Table != t {
		info.Tables = append(info.Tables, TableInfo{Table: t})
	}
	last := &info.Tables[len(info.Tables)-1]
	last.Rows++
	last.Bytes += uint64(size)
	last.Largest = max(last.Largest, uint64(size))
	info.Rows++
}

// countingReader counts what is read through it.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
