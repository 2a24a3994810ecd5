package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Op is one operation of a workload: client is the number of the generator's
// client, n counts that client's operations from 0.
type Op func(ctx context.Context, client int, n uint64) error

// Load says how a workload is driven.
type Load struct {
	// Clients run at the same time, each with one operation outstanding.
	Clients int
	// Warmup runs first and is not counted.
	Warmup time.Duration
	// Duration is counted.
	Duration time.Duration
	// Rate, operations a second in all, makes it an open loop: latency counts from
	// the time an operation was due, so that a stall shows in every operation that
	// it held back. 0 is a closed loop.
	Rate float64
	// Histogram keeps the histogram in the Measure.
	Histogram bool
	// Progress, when set, is called about once a second with the operations done so
	// far, warm-up included.
	Progress func(done uint64)
}

// Validate reports the first field that makes no sense.
func (l Load) Validate() error {
	switch {
	case l.Clients < 1 || l.Clients > 100_000:
		return fmt.Errorf("clients: %d is not within 1 and 100000", l.Clients)
	case l.Duration <= 0 || l.Duration > time.Hour:
		return fmt.Errorf("duration: %s is not within 1ns and 1h", l.Duration)
	case l.Warmup < 0 || l.Warmup > time.Hour:
		return fmt.Errorf("warmup: %s is not within 0 and 1h", l.Warmup)
	case l.Rate < 0:
		return errors.New("rate: must not be negative")
	}
	return nil
}

// Measure is what a run of a workload gave.
type Measure struct {
	Workload string `json:"workload"`
	Clients  int    `json:"clients"`
	// Nodes, Keys and ValueBytes are of the point at which it was measured.
	Nodes      int           `json:"nodes,omitempty"`
	Keys       int           `json:"keys,omitempty"`
	ValueBytes int           `json:"value_bytes,omitempty"`
	Rate       float64       `json:"target_rate,omitempty"`
	Elapsed    time.Duration `json:"elapsed_ns"`
	Done       int64         `json:"operations"`
	Failed     int64         `json:"failed"`
	PerSecond  float64       `json:"per_second"`
	MeanUs     float64       `json:"mean_us"`
	P50Us      int64         `json:"p50_us"`
	P90Us      int64         `json:"p90_us"`
	P99Us      int64         `json:"p99_us"`
	P999Us     int64         `json:"p999_us"`
	MaxUs      int64         `json:"max_us"`
	// NodeCPUUs is the node's CPU time for each operation, NodeRSSBytes its memory at
	// the end, where the node is a process that the benchmark started.
	NodeCPUUs    float64 `json:"node_cpu_us_per_op,omitempty"`
	NodeRSSBytes int64   `json:"node_rss_bytes,omitempty"`
	// NodeDiskBytes is what its data takes; of several nodes, the most.
	NodeDiskBytes int64 `json:"node_disk_bytes,omitempty"`
	// Detail are further numbers, by name.
	Detail map[string]float64 `json:"detail,omitempty"`
	// Histogram is that of the latencies, in the encoding of HdrHistogram, where it was
	// asked for.
	Histogram []byte `json:"histogram,omitempty"`
	// FirstError is the first failure, for the reader who wonders.
	FirstError string `json:"first_error,omitempty"`
}

// Run drives op until the load's time is over, or ctx ends. Every client goroutine
// has returned when it does. An operation's error is counted, not returned.
func (l Load) Run(ctx context.Context, workload string, op Op) (Measure, error) {
	if err := l.Validate(); err != nil {
		return Measure{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{load: l, op: op, all: newLatencies(), begin: time.Now()}
	r.counted = r.begin.Add(l.Warmup)
	r.end = r.counted.Add(l.Duration)
	if l.Rate > 0 {
		r.interval = time.Duration(float64(l.Clients) / l.Rate * float64(time.Second))
	}
	stop := r.progress()
	defer stop()
	var group sync.WaitGroup
	for c := range l.Clients {
		group.Go(func() { r.client(ctx, c) })
	}
	group.Wait()
	m, err := r.measure(workload)
	if err != nil {
		return m, err
	}
	return m, context.Cause(ctx)
}

// run is one run of a load.
type run struct {
	load                Load
	op                  Op
	begin, counted, end time.Time
	interval            time.Duration // between a client's operations; 0 in a closed loop

	done   atomic.Uint64
	failed atomic.Int64
	first  atomic.Pointer[string] // failure
	all    *latencies
}

// client is one of the clients, until the time is over.
func (r *run) client(ctx context.Context, c int) {
	own := sample{to: r.all}
	defer own.flush()
	// Spread the clients of an open loop over one interval.
	due := r.begin.Add(r.interval * time.Duration(c) / time.Duration(r.load.Clients))
	for n := uint64(0); ; n++ {
		if r.interval > 0 && !sleepUntil(ctx, due) {
			return
		}
		start := time.Now()
		if !start.Before(r.end) || ctx.Err() != nil {
			return
		}
		from := start
		if r.interval > 0 {
			from = due
			due = due.Add(r.interval)
		}
		err := r.op(ctx, c, n)
		r.done.Add(1)
		switch {
		case start.Before(r.counted):
		case err == nil:
			own.add(time.Since(from).Microseconds())
		case ctx.Err() != nil:
			return
		default:
			r.failed.Add(1)
			text := err.Error()
			r.first.CompareAndSwap(nil, &text)
		}
	}
}

// progress calls Progress about once a second, until stop.
func (r *run) progress() (stop func()) {
	if r.load.Progress == nil {
		return func() {}
	}
	over := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.load.Progress(r.done.Load())
			case <-over:
				return
			}
		}
	}()
	return func() { close(over) }
}

// measure is what the run gave, once its clients have returned.
func (r *run) measure(workload string) (Measure, error) {
	elapsed := time.Since(r.counted)
	m := Measure{Workload: workload, Clients: r.load.Clients, Rate: r.load.Rate, Elapsed: elapsed, Failed: r.failed.Load()}
	r.all.report(&m)
	m.Done = r.all.hist.TotalCount()
	m.PerSecond = float64(m.Done) / elapsed.Seconds()
	if text := r.first.Load(); text != nil {
		m.FirstError = *text
	}
	if !r.load.Histogram {
		return m, nil
	}
	var err error
	m.Histogram, err = r.all.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return m, err
}

// sleepUntil waits until a time of the wall; false when ctx ended first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
