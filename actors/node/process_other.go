//go:build !unix

package node

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }

// openFilesMax is not known here.
func openFilesMax() uint64 { return 0 }
