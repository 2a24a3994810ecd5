//go:build unix

package node

import (
	"syscall"
	"time"
)

// processorTime is what this process has used of the processors; 0 where the system does
// not say.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// openFilesMax is how many files this process may have open; 0 where the system does not
// say. Go has raised it to what the system allows at most when it started.
func openFilesMax() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // signed on some systems
}
