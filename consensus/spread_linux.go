package consensus

import "golang.org/x/sys/unix"

// writeOut begins to write a range of a file to the disk, and waits for the end if it is
// told to. It promises nothing: what is durable, only a sync says.
func writeOut(fd uintptr, from, bytes int64, wait bool) {
	flags := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		flags |= unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	}
	_ = unix.SyncFileRange(int(fd), from, bytes, flags)
}
