package node

import "sync/atomic"

// applyTimes is how long the log has waited for apply, in milliseconds of the node's
// clock. Apply alone begins and ends; anyone reads.
type applyTimes struct {
	begunMs int64
	longest atomic.Int64
	// The longest of this span and of the one before it.
	span, now, before atomic.Int64
}

// applySpanMs is how long a span is: what is recent is between one and two of them old.
const applySpanMs = 60_000

func (a *applyTimes) begin(nowMs int64) { a.begunMs = nowMs }

// end returns how long the batch has taken.
func (a *applyTimes) end(nowMs int64) (tookMs int64) {
	tookMs = max(0, nowMs-a.begunMs)
	if span := nowMs / applySpanMs; span != a.span.Load() {
		last := int64(0)
		if span == a.span.Load()+1 {
			last = a.now.Load()
		}
		a.before.Store(last)
		a.now.Store(0)
		a.span.Store(span)
	}
	raise(&a.longest, tookMs)
	raise(&a.now, tookMs)
	return tookMs
}

func raise(to *atomic.Int64, v int64) {
	if v > to.Load() {
		to.Store(v)
	}
}

// recently is the longest of about the last minute.
func (a *applyTimes) recently(nowMs int64) int64 {
	switch nowMs/applySpanMs - a.span.Load() {
	case 0:
		return max(a.now.Load(), a.before.Load())
	case 1:
		return a.now.Load()
	}
	return 0
}
