package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// A node's heap is what it stores, which lives, and what passes through, which does not.
// The collector lets the heap grow in proportion to what lives: by a hundred percent
// unless told otherwise, which for a large store is memory that nothing is ever put in,
// and for a small one is nothing, so that it collects dozens of times a second. These say
// what room the heap has beside what lives.
const (
	heapRoomMax     = 192 << 20 // of a small store: what it costs to collect seldom
	heapSmall       = 448 << 20 // a heap that the room does not make larger
	heapRoomLoading = 256 << 20 // while a node starts, or half of what lives
	heapRoomPercent = 40        // of what lives, of a large store

	// heapMin is what the runtime takes for the least heap: below it the percentage
	// counts from here, and a percentage meant for less is room for more. With 1 MiB in
	// its place a start filled a gibibyte with fresh pages before the first collection.
	heapMin = 4 << 20
)

// heapRoom sets the collector's percentage after each collection. The operator's own
// settings, GOGC and GOMEMLIMIT, go first: with one of them it does nothing.
type heapRoom struct {
	loading atomic.Bool
	percent int // the one that is set
	off     bool
}

// tendHeap begins to; the node is starting.
func tendHeap(getenv func(string) string) *heapRoom {
	h := &heapRoom{off: getenv("GOGC") != "" || getenv("GOMEMLIMIT") != ""}
	if h.off {
		return h
	}
	h.loading.Store(true)
	h.tend()
	return h
}

// loaded says that the node has started. What the load has left behind is given back to
// the system, beside the node's work.
func (h *heapRoom) loaded() {
	if !h.off && h.loading.Swap(false) {
		go debug.FreeOSMemory()
	}
}

// tend sets the percentage, and comes back after the next collection: a finalizer runs
// then, on a goroutine that only finalizers have.
func (h *heapRoom) tend() {
	if p := roomPercent(liveHeap(), h.loading.Load()); p > h.percent+h.percent/20 || p < h.percent-h.percent/20 {
		h.percent = p
		debug.SetGCPercent(p)
	}
	next := new([16]byte)
	runtime.SetFinalizer(next, func(*[16]byte) { h.tend() })
}

// roomPercent is the percentage for so many bytes that live.
func roomPercent(live uint64, loading bool) int {
	live = max(live, heapMin)
	room := max(live*heapRoomPercent/100, min(heapRoomMax, heapSmall-min(live, heapSmall)))
	if loading {
		room = max(heapRoomLoading, live/2)
	}
	return int(room * 100 / live)
}

// liveHeap is what the last collection found to live.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
