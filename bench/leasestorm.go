package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

const (
	// stormPuts is how many puts a second go on meanwhile.
	stormPuts = 500
	// stormTogether is how many leases are granted and given their keys together: the
	// grants in one burst, the keys in one command.
	stormTogether = 200
	// stormMakers is how many such bursts are under way, one on each connection: the
	// exactly-once session of each may have a thousand writes on their way.
	stormMakers = 16
	// stormRate is how many leases a second the nodes are sure to take.
	stormRate = 12_000
)

// storm makes the leases so that all end at one moment.
func (l *leases) storm(ctx context.Context) (Measure, error) {
	end := time.Now().Add(10*time.Second + time.Duration(l.n)*time.Second/stormRate)
	began := time.Now()
	makers, err := Dial(l.cfg, stormMakers)
	if err != nil {
		return Measure{}, err
	}
	err = l.makeStorm(ctx, makers, end)
	makers.Close()
	if err != nil {
		return Measure{}, err
	}
	made := time.Since(began)
	w, err := l.target.of(0).Watch(ctx, client.PrefixSelector("storm/"), client.WatchOptions{
		KeysOnly: true, CreditEvents: 100_000, CreditBytes: 64 << 20, Types: []messages.EventType{messages.EventType_EVENT_TYPE_DELETE},
	})
	if err != nil {
		return Measure{}, err
	}
	defer w.Close()
	_, termBefore, _ := l.leader(ctx)
	p := l.startPuts(ctx, stormPuts)
	defer p.stop()
	sleepUntil(ctx, end.Add(-6*time.Second))
	p.cut()
	sleepUntil(ctx, end.Add(-200*time.Millisecond))
	before := p.cut()
	hist, early := newHist(), 0
	for gone := 0; gone < l.n; {
		b, err := w.Next(ctx)
		if err != nil {
			return Measure{}, fmt.Errorf("%d of %d are gone: %w", gone, l.n, err)
		}
		late := time.Since(end)
		if late < 0 {
			early += len(b.Events)
		}
		for range b.Events {
			_ = hist.RecordValue(min(max(late.Microseconds(), latencyMinUs), latencyMaxUs))
		}
		gone += len(b.Events)
	}
	took := time.Since(end)
	during := p.cut()
	err = p.end()
	_, termAfter, _ := l.leader(ctx)
	m := measureOf(hist, took)
	m.Detail = map[string]float64{
		"made_s": made.Seconds(), "all_gone_ms": float64(took.Milliseconds()), "gone_early": float64(early),
		"put_p50_before_ms": millis(before.ValueAtQuantile(50)), "put_p99_before_ms": millis(before.ValueAtQuantile(99)),
		"put_p50_during_ms": millis(during.ValueAtQuantile(50)), "put_p99_during_ms": millis(during.ValueAtQuantile(99)),
		"put_max_during_ms": millis(during.Max()), "raft_terms": float64(termAfter - termBefore),
		"apply_longest_ms": l.applyLongest(ctx),
	}
	return m, err
}

// makeStorm grants n leases that end at one time and puts a key with each.
func (l *leases) makeStorm(ctx context.Context, makers *Target, end time.Time) error {
	return inParallel(len(makers.clients), (l.n+stormTogether-1)/stormTogether, func(i int) error {
		// Whoever is free takes the next burst; the connections are as many.
		c, from := makers.of(i), i*stormTogether
		ids, err := grantMany(c, min(stormTogether, l.n-from), end)
		if err != nil {
			return err
		}
		puts := make([]*messages.Put, len(ids))
		for j, id := range ids {
			puts[j] = client.PutOf(fmt.Sprintf("storm/%07d", from+j), nil, client.PutOptions{LeaseID: id, NoPrev: true})
		}
		_, err = c.PutMany(ctx, puts...)
		return err
	})
}

// grantMany grants n leases that end at one time, in one burst.
func grantMany(c *client.Client, n int, end time.Time) ([]uint64, error) {
	left := time.Until(end)
	if left < 2*time.Second {
		return nil, errors.New("the leases took too long to make")
	}
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		first error
		ids   = make([]uint64, 0, n)
	)
	took := func(r *messages.Reply, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			first = err
		}
		ids = append(ids, r.GetResult().GetGrantLease().GetLeaseId())
	}
	for range n {
		group.Add(1)
		grant := &messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
			Op: &messages.Write_GrantLease{GrantLease: &messages.GrantLease{TtlMs: left.Milliseconds()}},
		}}}
		err := c.Start(grant, time.Minute, func(r *messages.Reply, err error) {
			took(r, err)
			group.Done()
		})
		if err != nil {
			took(nil, err)
			group.Done()
		}
	}
	group.Wait()
	return ids, first
}
