package consensus

import _ "unsafe" // for go:linkname

// Dragonboat keeps the entries that are not applied yet in a slice, and makes a new one,
// with room for 512, whenever it runs empty: with few clients that is 50 KiB of fresh
// memory for each write on each member, a fifteenth of what they do for it. The room is a
// setting that only a file in the working directory of the process can change; a slice
// with less of it grows when it must.
//
//go:linkname entrySliceSize github.com/lni/dragonboat/v4/internal/raft.entrySliceSize
var entrySliceSize uint64

// minEntrySliceSize is the room below which it makes a new slice, once some were applied.
//
//go:linkname minEntrySliceSize github.com/lni/dragonboat/v4/internal/raft.minEntrySliceSize
var minEntrySliceSize uint64

// As a rule no more than EntriesInFlight of replica.Limits are under way.
const (
	entrySliceRoom    = 16
	entrySliceRoomMin = 4
)

func init() { entrySliceSize, minEntrySliceSize = entrySliceRoom, entrySliceRoomMin }
