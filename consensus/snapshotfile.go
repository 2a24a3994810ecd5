package consensus

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/lni/vfs"
)

// What dragonboat's snapshot files look like: a header, blocks that each end with a
// CRC-32 (IEEE, big endian), and a tail.
const (
	snapshotHeaderBytes = 1024
	snapshotBlockBytes  = 2<<20 + crc32.Size
	snapshotTailBytes   = 16
)

// checkSnapshot checks the first block of the newest snapshot below dir. Dragonboat reads
// it on a goroutine of its own and panics without a word when its checksum does not hold;
// the others it reads for our applier, which turns that into an error.
func checkSnapshot(fs vfs.FS, dir string) error {
	file, err := newestSnapshot(fs, dir, 0)
	if err != nil || file == "" {
		return err
	}
	f, err := fs.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	bytes := min(info.Size()-snapshotHeaderBytes-snapshotTailBytes, snapshotBlockBytes)
	if bytes <= crc32.Size {
		return fmt.Errorf("the snapshot is damaged: %s has %d bytes", file, info.Size())
	}
	block := make([]byte, bytes)
	if _, err := f.ReadAt(block, snapshotHeaderBytes); err != nil && err != io.EOF {
		return err
	}
	content := block[:bytes-crc32.Size]
	if crc32.ChecksumIEEE(content) != binary.BigEndian.Uint32(block[len(content):]) {
		return fmt.Errorf("the snapshot is damaged: the checksum of the first block of %s does not hold", file)
	}
	return nil
}

// newestSnapshot finds the newest snapshot file that is complete; "" if there is none.
// Directories of snapshots that are being saved or received have a suffix.
func newestSnapshot(fs vfs.FS, dir string, depth int) (string, error) {
	names, err := fs.List(dir)
	if err != nil {
		return "", err
	}
	slices.Sort(names) // by index, which has leading zeros
	newest := ""
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		if strings.HasSuffix(name, snapshotSuffix) {
			newest = path
			continue
		}
		if depth >= 6 || strings.Contains(name, ".") {
			continue
		}
		info, err := fs.Stat(path)
		if err != nil {
			return "", err
		}
		if !info.IsDir() {
			continue
		}
		below, err := newestSnapshot(fs, path, depth+1)
		if err != nil {
			return "", err
		}
		if below != "" {
			newest = below
		}
	}
	return newest, nil
}
