package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/concord-kv/concord/bench"
)

// workloadNames are what a system may be asked to do. fill writes all keys in bulk and
// tells memory and disk after it; restart kills a member then and waits until it
// takes a write again. mixed is four linearizable gets for each put.
var workloadNames = []string{"put", "get", "get-stale", "list", "txn", "mixed", "watch", "fill", "restart"}

// Result is one point of one system.
type Result struct {
	System string `json:"system"`
	Round  int    `json:"round"`
	bench.Measure
	// DiskBytes is what the members' data takes after the point.
	DiskBytes int64 `json:"disk_bytes"`
}

func (o *options) run(ctx context.Context) (all []Result, err error) {
	for _, w := range o.workloads {
		if !slices.Contains(workloadNames, w) {
			return nil, fmt.Errorf("no workload is called %q", w)
		}
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, err
	}
	for round := range o.repeats {
		for _, name := range o.systems {
			s, err := newSystem(name, o)
			if err != nil {
				return all, err
			}
			dir, err := os.MkdirTemp(o.dir, name+"-")
			if err != nil {
				return all, err
			}
			fmt.Fprintf(os.Stderr, "round %d: %s\n", round+1, name)
			err = s.Start(ctx, dir, o.nodes)
			if err == nil {
				err = o.points(ctx, s, func(m bench.Measure) {
					fmt.Fprintf(os.Stderr, "  %-10s %5d clients %9.0f/s  p50 %7.2f ms  p99 %7.2f ms  failed %d %s\n", m.Workload, m.Clients, m.PerSecond,
						float64(m.P50Us)/1000, float64(m.P99Us)/1000, m.Failed, m.FirstError)
					all = append(all, Result{System: name, Round: round, Measure: m, DiskBytes: s.Members().disk()})
				})
			}
			s.Members().stop()
			if err != nil {
				return all, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return all, nil
}

// points runs every point on a cluster.
func (o *options) points(ctx context.Context, s System, add func(bench.Measure)) error {
	member := func(i int) int { return i }
	switch o.at {
	case "each":
	case "leader":
		i, err := s.Leader(ctx)
		if err != nil {
			return err
		}
		member = func(int) int { return i }
	default:
		return fmt.Errorf("at: %q is neither each nor leader", o.at)
	}
	conns := make([]Conn, o.connections)
	for i := range conns {
		c, err := s.Dial(member(i))
		if err != nil {
			return err
		}
		defer c.Close()
		conns[i] = c
	}
	l := &load{options: o, conns: conns, system: s, value: make([]byte, o.bytes)}
	for i := range l.value {
		l.value[i] = byte(rand.Uint32())
	}
	for _, w := range o.workloads {
		if w == "fill" || w == "restart" {
			m, err := l.once(ctx, w)
			if err != nil {
				return err
			}
			add(m)
			continue
		}
		if err := l.prepare(ctx); err != nil {
			return err
		}
		for _, n := range o.clients {
			m, err := l.point(ctx, w, n)
			if err != nil {
				return err
			}
			add(m)
		}
	}
	return nil
}

// load is a cluster with connections to it.
type load struct {
	*options
	system   System
	conns    []Conn
	value    []byte
	prepared bool
}

func key(i int) string { return fmt.Sprintf("k/%010d", i) }

// listKeys is how many keys a list reads.
const listKeys = 1_000

// prepare writes the keys that are read and swapped.
func (l *load) prepare(ctx context.Context) error {
	if l.prepared {
		return nil
	}
	l.prepared = true
	if err := l.fill(ctx, key, l.keys); err != nil {
		return err
	}
	return l.fill(ctx, func(i int) string { return fmt.Sprintf("l/%010d", i) }, listKeys)
}

func (l *load) fill(ctx context.Context, key func(int) string, n int) error {
	const part = 1_000
	return parallel(8, (n+part-1)/part, func(i int) error {
		var keys []string
		for k := i * part; k < min(n, (i+1)*part); k++ {
			keys = append(keys, key(k))
		}
		return l.conns[i%len(l.conns)].Load(ctx, keys, l.value)
	})
}

func (l *load) point(ctx context.Context, workload string, n int) (bench.Measure, error) {
	if workload == "watch" {
		return l.watch(ctx, n)
	}
	before, _ := l.system.Members().usage()
	m, err := bench.Load{Clients: n, Warmup: l.warmup, Duration: l.duration}.Run(ctx, workload, l.op(workload, n))
	after, rss := l.system.Members().usage()
	if m.Done > 0 {
		// The warm-up is in it: its share is taken off.
		share := m.Elapsed.Seconds() / (m.Elapsed + l.warmup).Seconds()
		m.NodeCPUUs = share * float64((after - before).Microseconds()) / float64(m.Done)
	}
	m.NodeRSSBytes = rss
	return m, err
}

func (l *load) op(workload string, n int) bench.Op {
	conn := func(c int) Conn { return l.conns[c%len(l.conns)] }
	random := func() string { return key(rand.IntN(l.keys)) }
	switch workload {
	case "put":
		return func(ctx context.Context, c int, _ uint64) error { return conn(c).Put(ctx, random(), l.value) }
	case "get", "get-stale":
		return func(ctx context.Context, c int, _ uint64) error {
			return conn(c).Get(ctx, random(), workload == "get-stale")
		}
	case "mixed":
		return func(ctx context.Context, c int, i uint64) error {
			if i%5 == 0 {
				return conn(c).Put(ctx, random(), l.value)
			}
			return conn(c).Get(ctx, random(), false)
		}
	case "list":
		return func(ctx context.Context, c int, _ uint64) error {
			got, err := conn(c).List(ctx, "l/")
			if err == nil && got != listKeys {
				err = fmt.Errorf("%d keys of %d", got, listKeys)
			}
			return err
		}
	}
	// txn: each client has a key of its own, so that no compare fails.
	versions := make([]uint64, n)
	return func(ctx context.Context, c int, _ uint64) (err error) {
		versions[c], err = conn(c).Swap(ctx, key(c%l.keys), l.value, versions[c])
		return err
	}
}

// watchedKey is the key of watch, below its prefix.
const watchedKey = "0"

// watch has n watchers of one key, and one writer. The operations are the events that
// were delivered; latency is from the start of the put.
func (l *load) watch(ctx context.Context, n int) (bench.Measure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prefix := fmt.Sprintf("w%d/", n)
	if err := l.conns[0].Put(ctx, prefix+watchedKey, l.value); err != nil {
		return bench.Measure{}, err
	}
	var (
		begin    = time.Now()
		counting atomic.Bool
		events   atomic.Int64
		mu       sync.Mutex
		hist     = hdrhistogram.New(1, 120_000_000, 3)
	)
	for i := range n {
		err := l.conns[i%len(l.conns)].Watch(ctx, prefix, func(value []byte) {
			if !counting.Load() || len(value) < 8 {
				return
			}
			us := (time.Since(begin) - time.Duration(binary.BigEndian.Uint64(value))).Microseconds()
			if events.Add(1)%16 == 0 { // one in sixteen is timed: the lock is shared by all
				mu.Lock()
				_ = hist.RecordValue(max(us, 1))
				mu.Unlock()
			}
		})
		if err != nil {
			return bench.Measure{}, err
		}
	}
	start := time.AfterFunc(l.warmup, func() { counting.Store(true) })
	defer start.Stop()
	puts, err := bench.Load{Clients: 1, Warmup: l.warmup, Duration: l.duration, Rate: l.rate}.Run(ctx, "watch",
		func(ctx context.Context, _ int, _ uint64) error {
			value := append(binary.BigEndian.AppendUint64(nil, uint64(time.Since(begin))), l.value...)
			return l.conns[0].Put(ctx, prefix+watchedKey, value)
		})
	counting.Store(false)
	if err != nil {
		return puts, err
	}
	m := puts
	m.Clients, m.Done = n, events.Load()
	m.PerSecond = float64(m.Done) / m.Elapsed.Seconds()
	mu.Lock()
	defer mu.Unlock()
	m.MeanUs, m.P50Us, m.P90Us, m.P99Us, m.MaxUs = hist.Mean(), hist.ValueAtQuantile(50), hist.ValueAtQuantile(90), hist.ValueAtQuantile(99), hist.Max()
	m.Detail = map[string]float64{"puts/s": puts.PerSecond, "delivered of due": m.PerSecond / (puts.PerSecond * float64(n))}
	return m, nil
}

// once runs what happens once: fill or restart.
func (l *load) once(ctx context.Context, workload string) (bench.Measure, error) {
	begin := time.Now()
	m := bench.Measure{Workload: workload, Clients: 1, Done: 1}
	var err error
	if workload == "fill" {
		m.Done = int64(l.keys)
		err = l.fill(ctx, key, l.keys)
		l.prepared = true
	} else {
		err = l.system.Restart(ctx)
	}
	m.Elapsed = time.Since(begin)
	m.PerSecond = float64(m.Done) / m.Elapsed.Seconds()
	_, m.NodeRSSBytes = l.system.Members().usage()
	m.Detail = map[string]float64{"seconds": m.Elapsed.Seconds()}
	return m, err
}

// parallel calls f for 0 to n-1 from a few goroutines and returns the first error.
func parallel(goroutines, n int, f func(int) error) error {
	var (
		next  atomic.Int64
		group sync.WaitGroup
		first atomic.Pointer[error]
	)
	for range min(goroutines, n) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && first.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

// table writes medians over the rounds, with the least and the most, and the ratio of
// the first system to each other.
func table(all []Result, systems []string) string {
	type point struct {
		workload string
		clients  int
	}
	var points []point
	for _, r := range all {
		if p := (point{r.Workload, r.Clients}); !slices.Contains(points, p) {
			points = append(points, p)
		}
	}
	of := func(p point, system string, f func(Result) float64) (median, low, high float64) {
		var v []float64
		for _, r := range all {
			if r.System == system && r.Workload == p.workload && r.Clients == p.clients {
				v = append(v, f(r))
			}
		}
		if len(v) == 0 {
			return 0, 0, 0
		}
		slices.Sort(v)
		return v[len(v)/2], v[0], v[len(v)-1]
	}
	rate := func(r Result) float64 { return r.PerSecond }
	var b strings.Builder
	b.WriteString("| workload | clients | system | op/s (least, most) | p50 ms | p99 ms | members' CPU us/op | RSS MiB | disk MiB | failed | rate of " + systems[0] + " | its p99 |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range points {
		ours, _, _ := of(p, systems[0], rate)
		ours99, _, _ := of(p, systems[0], func(r Result) float64 { return float64(r.P99Us) })
		for _, s := range systems {
			median, low, high := of(p, s, rate)
			if median == 0 {
				continue
			}
			p50, _, _ := of(p, s, func(r Result) float64 { return float64(r.P50Us) / 1000 })
			p99, _, _ := of(p, s, func(r Result) float64 { return float64(r.P99Us) })
			cpu, _, _ := of(p, s, func(r Result) float64 { return r.NodeCPUUs })
			rss, _, _ := of(p, s, func(r Result) float64 { return float64(r.NodeRSSBytes) / (1 << 20) })
			disk, _, _ := of(p, s, func(r Result) float64 { return float64(r.DiskBytes) / (1 << 20) })
			failed, _, _ := of(p, s, func(r Result) float64 { return float64(r.Failed) })
			ratio := ""
			if s != systems[0] {
				ratio = fmt.Sprintf("%.1f times | %.2f times", ours/median, ours99/max(p99, 1))
			} else {
				ratio = " | "
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %.0f (%.0f, %.0f) | %.2f | %.2f | %.0f | %.0f | %.0f | %.0f | %s |\n",
				p.workload, p.clients, s, median, low, high, p50, p99/1000, cpu, rss, disk, failed, ratio)
		}
	}
	return b.String()
}
