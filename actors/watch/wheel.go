package watch

// wheel is when to look at which watcher: buckets of time in a ring. A watcher costs a
// look for each of its intervals, not for each tick, and leaves at once when it ends. What
// is due beyond a turn of the ring is looked at once a turn.
type wheel struct {
	buckets [wheelBuckets][]*watcher
	at      int64 // number of the bucket that was emptied last
}

const (
	wheelBuckets = 64
	wheelMs      = 100 // of a bucket
)

// add has turn come back to w at dueMs, or a little later.
func (x *wheel) add(w *watcher, dueMs int64) {
	number := min(max(dueMs/wheelMs+1, x.at+1), x.at+wheelBuckets-1)
	w.wheelBucket = int(number % wheelBuckets)
	b := &x.buckets[w.wheelBucket]
	w.wheelSlot = len(*b)
	*b = append(*b, w)
}

// remove takes w out; it must be in x.
func (x *wheel) remove(w *watcher) {
	b := x.buckets[w.wheelBucket]
	last := len(b) - 1
	b[last].wheelSlot = w.wheelSlot
	b[w.wheelSlot] = b[last]
	b[last] = nil
	x.buckets[w.wheelBucket] = b[:last]
}

// turn calls look for every watcher that is due by nowMs; look returns when to come
// back and must neither add nor remove watchers.
func (x *wheel) turn(nowMs int64, look func(*watcher) (dueMs int64)) {
	to := nowMs / wheelMs
	// After a long pause each bucket is due once.
	for x.at = max(x.at, to-wheelBuckets); x.at < to; {
		x.at++
		i := int(x.at % wheelBuckets)
		due := x.buckets[i]
		x.buckets[i] = nil
		for _, w := range due {
			x.add(w, look(w))
		}
		if x.buckets[i] == nil {
			clear(due)
			x.buckets[i] = due[:0]
		}
	}
}
