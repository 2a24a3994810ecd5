package main

import "testing"

func TestHeapRoom(t *testing.T) {
	const mib = 1 << 20
	for _, x := range []struct {
		live    uint64
		loading bool
		room    uint64 // what the heap may grow by
	}{
		{0, false, 192 * mib}, {4 * mib, false, 192 * mib}, {256 * mib, false, 192 * mib}, {300 * mib, false, 148 * mib},
		{320 * mib, false, 128 * mib}, {500 * mib, false, 200 * mib}, {4000 * mib, false, 1600 * mib},
		{0, true, 256 * mib}, {100 * mib, true, 256 * mib}, {1000 * mib, true, 500 * mib},
	} {
		live := max(x.live, 4*mib) // the runtime's own least
		if got := live * uint64(roomPercent(x.live, x.loading)) / 100; got > x.room || got < x.room-x.room/50 {
			t.Errorf("%d MiB live, loading %v: room for %d MiB, want %d", x.live/mib, x.loading, got/mib, x.room/mib)
		}
	}
}
