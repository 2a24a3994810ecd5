package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestHeapRoom(t *testing.T) {
	const mib = 1 << 20
	for _, x := range []struct {
		live    uint64
		loading bool
		room    uint64 // what the heap may grow by
	}{
		{0, false, 64 * mib}, {4 * mib, false, 64 * mib}, {160 * mib, false, 64 * mib}, {500 * mib, false, 200 * mib}, {4000 * mib, false, 1600 * mib},
		{0, true, 256 * mib}, {100 * mib, true, 256 * mib}, {1000 * mib, true, 1000 * mib},
	} {
		live := max(x.live, mib)
		if got := live * uint64(roomPercent(x.live, x.loading)) / 100; got > x.room || got < x.room-x.room/50 {
			t.Errorf("%d MiB live, loading %v: room for %d MiB, want %d", x.live/mib, x.loading, got/mib, x.room/mib)
		}
	}
}

// TestHeapIsTended: the percentage follows what lives, collection after collection, and
// the operator's own setting is left alone.
func TestHeapIsTended(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	if h := tendHeap(func(string) string { return "75" }); !h.off || current() != 100 {
		t.Fatal("GOGC was set by the operator")
	}
	h := tendHeap(func(string) string { return "" })
	small := current()
	if small < 400 {
		t.Errorf("a node that starts has %d percent", small)
	}
	kept := make([]byte, 400<<20)
	h.loaded()
	deadline := time.Now().Add(time.Minute)
	for current() >= 100 && time.Now().Before(deadline) {
		runtime.GC()
		runtime.Gosched()
	}
	if p := current(); p < 30 || p > 60 {
		t.Errorf("with 400 MiB the heap may grow by %d percent", p)
	}
	runtime.KeepAlive(kept)
	h.loading.Store(true) // what follows in this process is no node of 400 MiB
}

// current reads the percentage.
func current() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}
