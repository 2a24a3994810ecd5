package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// LeaseWorkloads are the workloads of leases. They run against three nodes that the
// suite starts, or the cluster that it is given; clients is the number of leases.
//
// lease-storm lets so many leases with a key each end at one moment, with puts going on;
// its operations are the keys, their latency is from the deadline to the event that says
// the key is gone. lease-revoke revokes one lease with so many keys, with puts going on;
// its operations are the puts. lease-lateness keeps so many live and lets each end by
// itself; latency is from the deadline to the event. lease-keepalive has ten client
// processes renew so many leases as fast as they can, and kills the leader on the way,
// unless there is a Rate.
// lease-kept has one client keep so many alive for the duration.
var LeaseWorkloads = []string{"lease-storm", "lease-revoke", "lease-lateness", "lease-keepalive", "lease-kept"}

// leaseOrLock runs a workload of LeaseWorkloads or LockWorkloads; ok is false if it is
// none.
func (s *Suite) leaseOrLock(ctx context.Context, workload string, n int, endpoints []string) (m Measure, ok bool, err error) {
	switch {
	case slices.Contains(LeaseWorkloads, workload):
		m, err = s.lease(ctx, workload, n)
	case slices.Contains(LockWorkloads, workload):
		m, err = s.lock(ctx, workload, n, endpoints)
	case workload == "lease-renew":
		m, err = s.renew(ctx, n)
	default:
		return m, false, nil
	}
	return m, true, err
}

// lease runs one of LeaseWorkloads.
func (s *Suite) lease(ctx context.Context, workload string, n int) (Measure, error) {
	cluster := &ProcessCluster{Endpoints: s.Endpoints}
	if len(s.Endpoints) == 0 {
		var err error
		if cluster, err = StartProcessCluster(ctx, s.Binary, s.Dir, 3); err != nil {
			return Measure{}, err
		}
		defer cluster.Stop()
	}
	cfg := client.Config{Endpoints: cluster.Endpoints, Name: "bench", Timeout: time.Minute}
	l := leases{Suite: s, cluster: cluster, n: n, cfg: cfg}
	var err error
	if l.target, err = Dial(cfg, 8); err != nil {
		return Measure{}, err
	}
	defer l.target.Close()
	if err := raiseLeases(ctx, l.target.of(0), n); err != nil {
		return Measure{}, err
	}
	var m Measure
	switch workload {
	case "lease-storm":
		m, err = l.storm(ctx)
	case "lease-revoke":
		m, err = l.revoke(ctx)
	case "lease-lateness":
		m, err = l.lateness(ctx)
	case "lease-keepalive":
		m, err = l.keepalive(ctx)
	default:
		m, err = l.kept(ctx)
	}
	m.Workload, m.Clients = workload, n
	return m, err
}

// leases is one run of one of LeaseWorkloads.
type leases struct {
	*Suite
	cluster *ProcessCluster
	target  *Target
	cfg     client.Config
	n       int
}

// each runs op for 0 to n-1, a thousand at a time, and returns the first error.
func (l *leases) each(ctx context.Context, n int, op func(ctx context.Context, i int) error) error {
	const outstanding = 2_000
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(outstanding, n) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := op(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// puts is a load of puts that goes on until stop; what is measured is cut into parts.
type puts struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// startPuts begins an open loop of so many puts a second.
func (l *leases) startPuts(ctx context.Context, rate float64) *puts {
	ctx, stop := context.WithCancel(ctx)
	p := &puts{hist: newHist(), stop: stop, done: make(chan struct{})}
	put := l.target.Put(Keys{Prefix: "load/", Count: 1_000, ValueBytes: 256})
	go func() {
		defer close(p.done)
		_, err := Load{Clients: 64, Duration: time.Hour, Rate: rate}.Run(ctx, "put", func(ctx context.Context, c int, n uint64) error {
			start := time.Now()
			err := put(ctx, c, n)
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil && ctx.Err() == nil {
				p.err = err
			} else if err == nil {
				_ = p.hist.RecordValue(min(max(time.Since(start).Microseconds(), latencyMinUs), latencyMaxUs))
			}
			return err
		})
		_ = err // stop
	}()
	return p
}

// cut returns what was measured since the last cut.
func (p *puts) cut() *hdrhistogram.Histogram {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hist
	p.hist = newHist()
	return h
}

func (p *puts) end() error {
	p.stop()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func newHist() *hdrhistogram.Histogram {
	return hdrhistogram.New(latencyMinUs, latencyMaxUs, latencyDigits)
}

func measureOf(h *hdrhistogram.Histogram, elapsed time.Duration) Measure {
	return Measure{
		Elapsed: elapsed, Done: h.TotalCount(), PerSecond: float64(h.TotalCount()) / elapsed.Seconds(), MeanUs: h.Mean(),
		P50Us: h.ValueAtQuantile(50), P90Us: h.ValueAtQuantile(90), P99Us: h.ValueAtQuantile(99), P999Us: h.ValueAtQuantile(99.9), MaxUs: h.Max(),
	}
}

func millis(us int64) float64 { return float64(us) / 1_000 }

// stormPuts is how many puts a second go on meanwhile.
const stormPuts = 500

// storm makes the leases so that all end at one moment.
func (l *leases) storm(ctx context.Context) (Measure, error) {
	// Two writes each, and some time to spare.
	end := time.Now().Add(10*time.Second + time.Duration(l.n)*2*time.Second/15_000)
	began := time.Now()
	err := l.each(ctx, l.n, func(ctx context.Context, i int) error {
		c := l.target.of(i)
		left := time.Until(end)
		if left < 2*time.Second {
			return errors.New("the leases took too long to make")
		}
		g, err := c.Grant(ctx, left, client.GrantOptions{})
		if err != nil {
			return err
		}
		_, err = c.Put(ctx, fmt.Sprintf("storm/%07d", i), nil, client.PutOptions{LeaseID: g.LeaseID, NoPrev: true})
		return err
	})
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
	hist := newHist()
	early := 0
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
	}
	return m, err
}

func (l *leases) leader(ctx context.Context) (int, uint64, error) { return l.cluster.Leader(ctx) }

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
	before := p.cut()
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
		"put_p99_before_ms": millis(before.ValueAtQuantile(99)), "put_max_before_ms": millis(before.Max()), "put_max_during_ms": millis(during.Max()),
	}
	return m, err
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
	var mu sync.Mutex
	ends := map[string]time.Time{}
	number := 0
	grant := func(ctx context.Context) error {
		mu.Lock()
		number++
		key, c := fmt.Sprintf("late/%07d", number), l.target.of(number)
		mu.Unlock()
		ttl := time.Duration(2_000+rand.IntN(8_000)) * time.Millisecond
		sent := time.Now() // its deadline is later: what is measured is too much, not too little
		g, err := c.Grant(ctx, ttl, client.GrantOptions{})
		if err != nil {
			return err
		}
		mu.Lock()
		ends[key] = sent.Add(ttl)
		mu.Unlock()
		_, err = c.Put(ctx, key, nil, client.PutOptions{LeaseID: g.LeaseID, NoPrev: true})
		return err
	}
	if err := l.each(ctx, l.n, func(ctx context.Context, _ int) error { return grant(ctx) }); err != nil {
		return Measure{}, err
	}
	begin := time.Now()
	hist, early := newHist(), 0
	until, cancel := context.WithDeadline(ctx, begin.Add(l.Warmup+l.Duration))
	defer cancel()
	var group sync.WaitGroup
	for {
		b, err := w.Next(until)
		if err != nil {
			break
		}
		now := time.Now()
		for _, e := range b.Events {
			mu.Lock()
			end, ok := ends[string(e.GetRecord().GetKey())]
			mu.Unlock()
			if !ok {
				continue
			}
			late := now.Sub(end)
			if late < 0 {
				early++
			}
			if now.Sub(begin) > l.Warmup {
				_ = hist.RecordValue(min(max(late.Microseconds(), latencyMinUs), latencyMaxUs))
			}
			group.Go(func() { _ = grant(until) })
		}
	}
	group.Wait()
	m := measureOf(hist, l.Duration)
	m.Detail = map[string]float64{"ended_early": float64(early)}
	return m, ctx.Err()
}
