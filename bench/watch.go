package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// watch runs one of the workloads of watches.
func (s *Suite) watch(ctx context.Context, workload string, n int, endpoints []string, node *Process) (Measure, error) {
	cfg := s.client(endpoints, time.Minute)
	switch workload {
	case "watch-idle":
		return s.idle(ctx, cfg, n, node)
	case "watch-replay":
		return s.replay(ctx, cfg, n, node)
	}
	f := Fanout{Watchers: n, Writers: 64, Rate: s.Rate, Keys: s.Keys, Warmup: s.Warmup, Duration: s.Duration}
	if workload == "watch-stalled" {
		f.Stalled = 1
	}
	m, err := f.Run(ctx, cfg)
	m.Workload = workload
	return m, err
}

// watchConnectionsMax bounds the connections that the watchers of one workload share.
const watchConnectionsMax = 10

// Fanout is writers at full speed on one connection, and watchers of all that they write.
type Fanout struct {
	// Watchers read all they can; Stalled further ones have little credit and read nothing, on a
	// connection of their own.
	Watchers, Stalled int
	// Writers is how many puts are outstanding; Rate, puts a second, makes it an open
	// loop.
	Writers          int
	Rate             float64
	Keys             Keys
	Warmup, Duration time.Duration
}

// commits knows when revisions were acknowledged. Revisions of one run fit in it.
type commits [1 << 20]atomic.Int64

// Run measures events delivered, and how long after the acknowledgement of its write
// each was. An event that overtakes the acknowledgement counts as the least.
func (f Fanout) Run(ctx context.Context, cfg client.Config) (Measure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	target, err := Dial(cfg, min(max(f.Watchers/10, 1), watchConnectionsMax))
	if err != nil {
		return Measure{}, err
	}
	defer target.Close()
	prefix := client.PrefixSelector(f.Keys.Prefix)
	var (
		acked    = new(commits)
		base     = time.Now()
		counting atomic.Bool
		events   atomic.Int64
		readers  sync.WaitGroup
		each     = make([]reader, len(target.clients))
	)
	defer readers.Wait()
	defer cancel()
	for i := range each {
		each[i].hist = hdrhistogram.New(latencyMinUs, latencyMaxUs, latencyDigits)
	}
	for i := range f.Watchers {
		w, err := target.of(i).Watch(ctx, prefix, client.WatchOptions{})
		if err != nil {
			return Measure{}, err
		}
		r := &each[i%len(each)]
		readers.Go(func() {
			defer w.Close()
			for {
				b, err := w.Next(ctx)
				if err != nil {
					if ctx.Err() == nil {
						r.fail(err)
					}
					return
				}
				if !counting.Load() || len(b.Events) == 0 {
					continue
				}
				events.Add(int64(len(b.Events)))
				us := int64(latencyMinUs)
				if at := acked[b.To.GetRevision()%uint64(len(acked))].Load(); at != 0 {
					us = (time.Since(base).Nanoseconds() - at) / 1000
				}
				r.record(us)
			}
		})
	}
	if f.Stalled > 0 {
		c, err := client.New(cfg)
		if err != nil {
			return Measure{}, err
		}
		defer c.Close()
		for range f.Stalled {
			w, err := c.Watch(ctx, prefix, client.WatchOptions{CreditEvents: 10}) // used up at once
			if err != nil {
				return Measure{}, err
			}
			defer w.Close()
		}
	}
	writer, err := client.New(cfg)
	if err != nil {
		return Measure{}, err
	}
	defer writer.Close()
	value := f.Keys.value()
	put := func(ctx context.Context, _ int, _ uint64) error {
		r, err := writer.Put(ctx, f.Keys.random(), value, client.PutOptions{NoPrev: true})
		if err == nil {
			acked[r.Revision%uint64(len(acked))].Store(time.Since(base).Nanoseconds())
		}
		return err
	}
	begin := time.AfterFunc(f.Warmup, func() { counting.Store(true) })
	defer begin.Stop()
	puts, err := Load{Clients: f.Writers, Warmup: f.Warmup, Duration: f.Duration, Rate: f.Rate}.Run(ctx, "put", put)
	counting.Store(false)
	if err != nil {
		return Measure{}, err
	}
	m := Measure{Clients: f.Watchers, Elapsed: puts.Elapsed, Done: events.Load(), PerSecond: float64(events.Load()) / puts.Elapsed.Seconds(), Failed: puts.Failed, FirstError: puts.FirstError}
	all := each[0].merged(each[1:], &m)
	m.MeanUs, m.P50Us, m.P90Us = all.Mean(), all.ValueAtQuantile(50), all.ValueAtQuantile(90)
	m.P99Us, m.P999Us, m.MaxUs = all.ValueAtQuantile(99), all.ValueAtQuantile(99.9), all.Max()
	m.Detail = map[string]float64{
		"puts/s": puts.PerSecond, "put p50 ms": float64(puts.P50Us) / 1000, "put p99 ms": float64(puts.P99Us) / 1000,
		"delivered of due": m.PerSecond / (puts.PerSecond * float64(f.Watchers)),
	}
	return m, nil
}

// reader is what the watchers of one connection have measured.
type reader struct {
	mu     sync.Mutex
	hist   *hdrhistogram.Histogram
	failed int64
	first  error
}

func (r *reader) record(us int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.hist.RecordValue(min(max(us, latencyMinUs), latencyMaxUs))
}

func (r *reader) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed++; r.first == nil {
		r.first = err
	}
}

// merged adds up what all readers have; failures go into m.
func (r *reader) merged(others []reader, m *Measure) *hdrhistogram.Histogram {
	for i := range others {
		o := &others[i]
		r.hist.Merge(o.hist)
		r.failed += o.failed
		if r.first == nil {
			r.first = o.first
		}
	}
	m.Failed += r.failed
	if r.first != nil && m.FirstError == "" {
		m.FirstError = r.first.Error()
	}
	return r.hist
}

// idle compares puts with and without n watchers of keys that nobody writes.
func (s *Suite) idle(ctx context.Context, cfg client.Config, n int, node *Process) (Measure, error) {
	writers, err := Dial(cfg, 1)
	if err != nil {
		return Measure{}, err
	}
	defer writers.Close()
	puts := func() (Measure, error) {
		return Load{Clients: 64, Warmup: s.Warmup, Duration: s.Duration}.Run(ctx, "watch-idle", writers.Put(s.Keys))
	}
	before, err := puts()
	if err != nil {
		return before, err
	}
	rss := rssOf(node)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	target, err := Dial(cfg, min(max(n/100, 1), ConnectionsMax))
	if err != nil {
		return Measure{}, err
	}
	now, err := writers.clients[0].Revision(ctx)
	if err != nil {
		target.Close()
		return Measure{}, err
	}
	opened := time.Now()
	err = inParallel(256, n, func(i int) error {
		_, err := target.of(i).Watch(ctx, client.KeySelector(fmt.Sprintf("idle/%08d", i)),
			client.WatchOptions{After: client.AfterRevision(now.Revision)})
		return err
	})
	if err != nil {
		target.Close()
		return Measure{}, err
	}
	opening := time.Since(opened)
	grown := rssOf(node) - rss // puts would grow it too
	m, err := puts()
	target.Close()
	if err != nil {
		return m, err
	}
	after, err := puts()
	if err != nil {
		return m, err
	}
	without := (before.PerSecond + after.PerSecond) / 2
	m.Clients = n
	m.Detail = map[string]float64{
		"puts/s before": before.PerSecond, "puts/s after": after.PerSecond, "puts/s of those without": m.PerSecond / without,
		"opened/s": float64(n) / opening.Seconds(), "node bytes a watcher": float64(grown) / float64(n),
	}
	return m, nil
}

// replayEvents is how long the log is that watch-replay reads.
const replayEvents = 1_000_000

// replay fills the log and has n watchers read all of it.
func (s *Suite) replay(ctx context.Context, cfg client.Config, n int, node *Process) (Measure, error) {
	target, err := Dial(cfg, min(n, watchConnectionsMax))
	if err != nil {
		return Measure{}, err
	}
	defer target.Close()
	from, err := target.clients[0].Revision(ctx)
	if err != nil {
		return Measure{}, err
	}
	const together = 100
	s.Log("writing %d events", replayEvents)
	err = inParallel(32, replayEvents/together, func(i int) error {
		puts := make([]*messages.Put, together)
		for j := range puts {
			var value [64]byte
			binary.BigEndian.PutUint64(value[:], uint64(i))
			puts[j] = client.PutOf(fmt.Sprintf("replay/%04d", (i+j*7)%10_000), value[:], client.PutOptions{})
		}
		_, err := target.of(i).PutMany(ctx, puts...)
		return err
	})
	if err != nil {
		return Measure{}, err
	}
	rss, peak := rssOf(node), int64(0)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if node != nil {
		go func() {
			for tick := time.NewTicker(50 * time.Millisecond); ; {
				select {
				case <-tick.C:
					for r := rssOf(node); ; {
						old := atomic.LoadInt64(&peak)
						if r <= old || atomic.CompareAndSwapInt64(&peak, old, r) {
							break
						}
					}
				case <-watching.Done():
					tick.Stop()
					return
				}
			}
		}()
	}
	begin := time.Now()
	err = inParallel(n, n, func(i int) error {
		w, err := target.of(i).Watch(watching, client.PrefixSelector("replay/"), client.WatchOptions{After: client.AfterRevision(from.Revision)})
		if err != nil {
			return err
		}
		defer w.Close()
		for events := 0; events < replayEvents; {
			b, err := w.Next(watching)
			if err != nil {
				return err
			}
			events += len(b.Events)
		}
		return nil
	})
	m := Measure{Workload: "watch-replay", Clients: n, Elapsed: time.Since(begin), Done: int64(n) * replayEvents}
	m.PerSecond = float64(m.Done) / m.Elapsed.Seconds()
	m.Detail = map[string]float64{"node MiB before": float64(rss) / (1 << 20), "node MiB at most": float64(atomic.LoadInt64(&peak)) / (1 << 20)}
	return m, err
}

func rssOf(p *Process) int64 {
	if p == nil {
		return 0
	}
	u, _ := p.Usage()
	return u.RSSBytes
}

// inParallel calls f for 0..n-1 from several goroutines and returns the first error.
func inParallel(goroutines, n int, f func(i int) error) error {
	var (
		next  atomic.Int64
		group sync.WaitGroup
		once  sync.Once
		first error
	)
	for range min(goroutines, n) {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					once.Do(func() { first = err })
					next.Store(int64(n))
					return
				}
			}
		})
	}
	group.Wait()
	return first
}
