package consensus

import "testing"

// The log of a replica that starts panics unless the room is above the least; that it
// serves and is small is what the other tests and figures are about.
func TestEntrySliceIsSmall(t *testing.T) {
	if entrySliceSize != entrySliceRoom || minEntrySliceSize != entrySliceRoomMin || entrySliceRoomMin >= entrySliceRoom {
		t.Fatalf("dragonboat's slices have room for %d entries and at least %d, want %d and %d",
			entrySliceSize, minEntrySliceSize, entrySliceRoom, entrySliceRoomMin)
	}
}
