package main

import "testing"

func TestHeapRoom(t *testing.T) {
	const mib = 1 << 20
	for _, x := range []struct {
		live    uint64
		loading bool
		room    uint64 // what the heap may grow by
	}{
		{0, false, 64 * mib}, {4 * mib, false, 64 * mib}, {100 * mib, false, 64 * mib}, {500 * mib, false, 300 * mib}, {4000 * mib, false, 2400 * mib},
		{0, true, 256 * mib}, {100 * mib, true, 256 * mib}, {1000 * mib, true, 1000 * mib},
	} {
		live := max(x.live, mib)
		if got := live * uint64(roomPercent(x.live, x.loading)) / 100; got > x.room || got < x.room-x.room/50 {
			t.Errorf("%d MiB live, loading %v: room for %d MiB, want %d", x.live/mib, x.loading, got/mib, x.room/mib)
		}
	}
}
