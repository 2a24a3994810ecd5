package consensus

import (
	"strings"

	"github.com/lni/vfs"
)

// spreadFS writes snapshot files to the disk as they grow, and waits for the disk, so
// that the sync at their end has little left to do. Without it a gigabyte of snapshot
// lies in the kernel's memory until then, and one sync of it is in the way of each sync
// of the log for seconds: of the log of this replica when it saves a snapshot, and, where
// a disk is shared, of the others when one is received.
type spreadFS struct{ vfs.FS }

// snapshotSuffix ends the names of dragonboat's snapshot files, at the sender and at the
// receiver.
const snapshotSuffix = ".gbsnap"

// Create implements vfs.FS.
func (fs spreadFS) Create(name string) (vfs.File, error) {
	f, err := fs.FS.Create(name)
	return spread(name, f, 0, err)
}

// OpenForAppend implements vfs.FS.
func (fs spreadFS) OpenForAppend(name string) (vfs.File, error) {
	f, err := fs.FS.OpenForAppend(name)
	if err != nil || !strings.HasSuffix(name, snapshotSuffix) {
		return f, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return spread(name, f, info.Size(), nil)
}

func spread(name string, f vfs.File, size int64, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, snapshotSuffix) {
		return f, err
	}
	d, ok := f.(interface{ Fd() uintptr })
	if !ok {
		return f, nil
	}
	return &spreadFile{File: f, fd: d.Fd(), size: size, asked: size, written: size}, nil
}

// spreadBytes are written between two words to the kernel.
const spreadBytes = 1 << 20

// spreadFile is a file that is only ever appended to.
type spreadFile struct {
	vfs.File
	fd uintptr
	// The kernel has written up to written, and has been asked to write up to asked.
	size, asked, written int64
}

// Write implements vfs.File.
func (f *spreadFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.size += int64(n)
	if err == nil && f.size-f.asked >= spreadBytes {
		f.advance()
	}
	return n, err
}

// advance waits for the range before and asks for the next: two of them are under way.
// Errors are those of a hint; the sync at the end tells what is wrong with the disk.
func (f *spreadFile) advance() {
	if f.asked > f.written {
		writeOut(f.fd, f.written, f.asked-f.written, true)
		f.written = f.asked
	}
	writeOut(f.fd, f.asked, f.size-f.asked, false)
	f.asked = f.size
}

// Close implements vfs.File. It waits for what is under way: a received snapshot is
// opened again for each piece.
func (f *spreadFile) Close() error {
	if f.size > f.written {
		writeOut(f.fd, f.written, f.size-f.written, true)
	}
	return f.File.Close()
}
