package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// revoke ends one lease with all its keys.
func (l *leases) revoke(ctx context.Context) (Measure, error) {
	c := l.target.of(0)
	g, err := c.Grant(ctx, time.Hour, client.GrantOptions{})
	if err != nil {
		return Measure{}, err
	}
	if err := l.each(ctx, l.n, func(ctx context.Context, i int) error {
		_, err := l.target.of(i).Put(ctx, fmt.Sprintf("one/%07d", i), nil, client.PutOptions{LeaseID: g.LeaseID, NoPrev: true})
		return err
	}); err != nil {
		return Measure{}, err
	}
	w, err := l.target.of(1).Watch(ctx, client.PrefixSelector("one/"), client.WatchOptions{KeysOnly: true, CreditEvents: 100_000, CreditBytes: 64 << 20})
	if err != nil {
		return Measure{}, err
	}
	defer w.Close()
	p := l.startPuts(ctx, stormPuts)
	defer p.stop()
	sleepUntil(ctx, time.Now().Add(3*time.Second))
	before, appliedBefore := p.cut(), l.applyLongest(ctx)
	start := time.Now()
	keys, err := c.Revoke(ctx, g.LeaseID)
	took := time.Since(start)
	if err != nil {
		return Measure{}, err
	}
	b, err := w.Next(ctx)
	if err != nil {
		return Measure{}, err
	}
	seen := time.Since(start)
	sleepUntil(ctx, time.Now().Add(500*time.Millisecond))
	during := p.cut()
	err = p.end()
	revisions := map[uint64]bool{}
	for _, e := range b.Events {
		revisions[e.Revision] = true
	}
	m := measureOf(during, time.Since(start))
	m.Detail = map[string]float64{
		"keys": float64(keys), "revoke_ms": millis(took.Microseconds()), "batch_seen_ms": millis(seen.Microseconds()),
		"events_in_first_batch": float64(len(b.Events)), "revisions": float64(len(revisions)),
		"apply_longest_before_ms": appliedBefore, "apply_longest_ms": l.applyLongest(ctx),
		"put_p99_before_ms": millis(before.ValueAtQuantile(99)), "put_max_before_ms": millis(before.Max()), "put_max_during_ms": millis(during.Max()),
	}
	return m, err
}
