package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// A lease's deadline lies between two moments that a client knows: its ttl after the
// grant was sent, and its ttl after the grant was answered. Between them lies how long
// the grant took, which on a busy machine is much more than expiry is late.

// span is where a deadline lies.
type span struct{ earliest, latest time.Time }

// endings is what is known of the leases of lease-lateness, by their keys.
type endings struct {
	mu     sync.Mutex
	number int
	spans  map[string]span
	// How much later than the earliest and the latest possible deadline the events came,
	// and how long grants took.
	most, least, grants *hdrhistogram.Histogram
	early, refused      int
}

// lateness keeps n leases live and has each end by itself after 2 to 10 s; as many are
// granted anew.
func (l *leases) lateness(ctx context.Context) (Measure, error) {
	w, err := l.target.of(0).Watch(ctx, client.PrefixSelector("late/"), client.WatchOptions{
		KeysOnly: true, CreditEvents: 100_000, Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE},
	})
	if err != nil {
		return Measure{}, err
	}
	defer w.Close()
	e := &endings{spans: map[string]span{}, most: newHist(), least: newHist(), grants: newHist()}
	if err := l.each(ctx, l.n, func(ctx context.Context, _ int) error { return l.grantEnding(ctx, e) }); err != nil {
		return Measure{}, err
	}
	_, termBefore, _ := l.leader(ctx)
	begin := time.Now()
	until, cancel := context.WithDeadline(ctx, begin.Add(l.Warmup+l.Duration))
	defer cancel()
	var group sync.WaitGroup
	for {
		b, err := w.Next(until)
		if err != nil {
			break
		}
		now := time.Now()
		for _, event := range b.Events {
			if e.ended(string(event.GetRecord().GetKey()), now, now.Sub(begin) > l.Warmup) {
				group.Go(func() {
					if l.grantEnding(until, e) != nil && until.Err() == nil {
						e.mu.Lock()
						e.refused++
						e.mu.Unlock()
					}
				})
			}
		}
	}
	group.Wait()
	_, termAfter, _ := l.leader(ctx)
	m := measureOf(e.most, l.Duration)
	m.Detail = map[string]float64{
		"ended_early": float64(e.early), "refused": float64(e.refused),
		"at_least_p50_ms": millis(e.least.ValueAtQuantile(50)), "at_least_p99_ms": millis(e.least.ValueAtQuantile(99)), "at_least_max_ms": millis(e.least.Max()),
		"grant_p50_ms": millis(e.grants.ValueAtQuantile(50)), "grant_p99_ms": millis(e.grants.ValueAtQuantile(99)), "grant_max_ms": millis(e.grants.Max()),
		"apply_longest_ms": l.applyLongest(ctx), "raft_terms": float64(termAfter - termBefore),
	}
	return m, ctx.Err()
}

// grantEnding grants a lease of 2 to 10 s and puts a key with it.
func (l *leases) grantEnding(ctx context.Context, e *endings) error {
	e.mu.Lock()
	e.number++
	key, c := fmt.Sprintf("late/%07d", e.number), l.target.of(e.number)
	e.mu.Unlock()
	ttl := time.Duration(2_000+rand.IntN(8_000)) * time.Millisecond
	sent := time.Now()
	g, err := c.Grant(ctx, ttl, client.GrantOptions{})
	if err != nil {
		return err
	}
	answered := time.Now()
	e.mu.Lock()
	e.spans[key] = span{sent.Add(ttl), answered.Add(ttl)}
	record(e.grants, answered.Sub(sent))
	e.mu.Unlock()
	_, err = c.Put(ctx, key, nil, client.PutOptions{LeaseID: g.LeaseID, NoPrev: true})
	return err
}

// ended takes the end of a key; false if it is not one of these.
func (e *endings) ended(key string, now time.Time, counts bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.spans[key]
	if !ok {
		return false
	}
	delete(e.spans, key)
	if now.Before(s.earliest) {
		e.early++
	}
	if counts {
		record(e.most, now.Sub(s.earliest))
		record(e.least, now.Sub(s.latest))
	}
	return true
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), latencyMinUs), latencyMaxUs))
}
