package pipeline

// Feed is a set of watches whose batches one goroutine hands out in turn: it is woken once
// for all that a message brings, however many of them it is for. Its owner calls TakeFed
// under the pipeline's lock until there is nothing, and then waits on Changed.
type Feed struct {
	// Changed receives a value when TakeFed may have something.
	Changed chan struct{}

	ready   []*Watch // that have a batch, or their end, to take
	watches int
}

// Fed is what TakeFed has of one watch: a batch, or why it ended.
type Fed struct {
	Handle func(Batch, error)
	Batch  Batch
	End    error
}

// NewFeed returns a feed without watches.
func NewFeed() *Feed { return &Feed{Changed: make(chan struct{}, 1)} }

// Attach hands the batches of a watch that has begun to handle from now on, those that wait
// first, and then, once, why it ended. Take must not be called any more.
func (p *Pipeline) Attach(w *Watch, f *Feed, handle func(Batch, error)) {
	w.feed, w.handle, w.woken = f, handle, false
	f.watches++
	if !w.Dry() && f.add(w) {
		Signal(f.Changed)
	}
}

// add notes that w has something, and tells whether it is the only one.
func (f *Feed) add(w *Watch) bool {
	if w.woken {
		return false
	}
	w.woken = true
	f.ready = append(f.ready, w)
	return len(f.ready) == 1
}

// TakeFed appends to round one batch of each watch that has any, or its end. The watch's
// credit for it is returned.
func (p *Pipeline) TakeFed(f *Feed, round []Fed) []Fed {
	ready := f.ready
	f.ready = ready[:0] // what stays moves up
	for _, w := range ready {
		b, ok, end := p.Take(w)
		if !ok && end != nil {
			f.watches--
		}
		if ok || end != nil {
			round = append(round, Fed{w.handle, b, end})
		}
		if ok && !w.Dry() {
			f.ready = append(f.ready, w)
		} else {
			w.woken = false
		}
	}
	clear(ready[len(f.ready):])
	return round
}

// Drop forgets the batches of a watch that were not taken: it is to be closed.
func (p *Pipeline) Drop(w *Watch) {
	for _, ok := w.out.pop(); ok; _, ok = w.out.pop() {
	}
}

// Idle tells whether the ends of all watches were taken.
func (f *Feed) Idle() bool { return f.watches == 0 }
