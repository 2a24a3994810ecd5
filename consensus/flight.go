package consensus

import (
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/concord-kv/concord/messages"
)

// flight is what this replica has proposed and dragonboat has not resolved.
//
// A proposal is told its end by whoever comes first: Update right after Apply, its
// own deadline, or dragonboat's report of a failure. It keeps its bytes until
// dragonboat has let go of it too, so that an unknown proposal, which may still
// sit in dragonboat's queues, goes on counting.
type flight struct {
	bytesMax int64
	tick     time.Duration

	mu    sync.Mutex
	seq   uint64
	bytes int64
	calls map[uint64]*call // not yet told
	kept  []*call          // not yet let go of by dragonboat
	wake  chan struct{}    // holds one token when kept became non-empty
}

type call struct {
	seq      uint64
	bytes    int64
	deadline time.Time
	done     func([]*messages.Result, error) // nil once told
	rs       *dragonboat.RequestState
}

func newFlight(bytesMax int64, tick time.Duration) *flight {
	return &flight{
		bytesMax: bytesMax, tick: tick,
		calls: map[uint64]*call{}, wake: make(chan struct{}, 1),
	}
}

// open numbers a proposal and reserves its bytes. One proposal larger than the
// bound may be in flight alone.
func (f *flight) open(bytes int, timeout time.Duration, done func([]*messages.Result, error)) (*call, error) {
	deadline := time.Now().Add(timeout)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes > 0 && f.bytes+int64(bytes) > f.bytesMax {
		return nil, errOverloaded(f.bytesMax)
	}
	f.seq++
	f.bytes += int64(bytes)
	c := &call{seq: f.seq, bytes: int64(bytes), deadline: deadline, done: done}
	f.calls[c.seq] = c
	return c, nil
}

// refused ends a proposal that dragonboat did not take.
func (f *flight) refused(c *call, err error) {
	f.mu.Lock()
	f.bytes -= c.bytes
	done := f.take(c)
	f.mu.Unlock()
	if done != nil {
		done(nil, err)
	}
}

// accepted hands over dragonboat's handle. The proposal may already be applied.
func (f *flight) accepted(c *call, rs *dragonboat.RequestState) {
	f.mu.Lock()
	c.rs = rs
	f.kept = append(f.kept, c)
	first := len(f.kept) == 1
	f.mu.Unlock()
	if first {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// applied ends a proposal with its results; Update calls it.
func (f *flight) applied(seq uint64, results []*messages.Result) {
	f.mu.Lock()
	var done func([]*messages.Result, error)
	if c := f.calls[seq]; c != nil {
		done = f.take(c)
	}
	f.mu.Unlock()
	if done != nil {
		done(results, nil)
	}
}

// take returns the callback of a call the first time. f.mu is held.
func (f *flight) take(c *call) func([]*messages.Result, error) {
	done := c.done
	c.done = nil
	delete(f.calls, c.seq)
	return done
}

// watch looks for failures and deadlines once a tick while there is anything to
// look at. A goroutine a proposal would notice them sooner, and costs more than
// the proposal: a failure is rare and a tick is short.
func (f *flight) watch(stop <-chan struct{}) {
	ticker := time.NewTicker(f.tick)
	defer ticker.Stop()
	for {
		select {
		case <-f.wake:
		case <-stop:
			return
		}
		ticker.Reset(f.tick)
		for more := true; more; {
			select {
			case <-ticker.C:
				more = f.sweep(time.Now())
			case <-stop:
				return
			}
		}
	}
}

// ending is a call whose callback is due.
type ending struct {
	done func([]*messages.Result, error)
	err  error
}

// sweep takes dragonboat's reports and ends what is past its deadline. It returns
// whether anything is left to watch.
func (f *flight) sweep(now time.Time) bool {
	var ended []ending
	f.mu.Lock()
	kept := f.kept[:0]
	for _, c := range f.kept {
		select {
		case r := <-c.rs.ResultC():
			c.rs.Release()
			f.bytes -= c.bytes
			if c.done != nil {
				ended = append(ended, ending{f.take(c), proposalEnded(r)})
			}
			continue
		default:
		}
		if c.done != nil && now.After(c.deadline) {
			ended = append(ended, ending{f.take(c), errTimeout()})
		}
		kept = append(kept, c)
	}
	clear(f.kept[len(kept):])
	f.kept = kept
	more := len(kept) > 0
	f.mu.Unlock()
	for _, e := range ended {
		e.done(nil, e.err)
	}
	return more
}

// close ends what is left. Dragonboat is closed: nothing more is applied here, but
// the cluster may still apply any of it.
func (f *flight) close() {
	f.mu.Lock()
	var ended []ending
	for _, c := range f.kept {
		if c.done != nil {
			ended = append(ended, ending{f.take(c), errStoppingUnknown()})
		}
	}
	f.kept = nil
	f.mu.Unlock()
	for _, e := range ended {
		e.done(nil, e.err)
	}
}

func (f *flight) load() (proposals int, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls), f.bytes
}
