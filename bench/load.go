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
	Workload  string        `json:"workload"`
	Clients   int           `json:"clients"`
	Rate      float64       `json:"target_rate,omitempty"`
	Elapsed   time.Duration `json:"elapsed_ns"`
	Done      int64         `json:"operations"`
	Failed    int64         `json:"failed"`
	PerSecond float64       `json:"per_second"`
	MeanUs    float64       `json:"mean_us"`
	P50Us     int64         `json:"p50_us"`
	P90Us     int64         `json:"p90_us"`
	P99Us     int64         `json:"p99_us"`
	P999Us    int64         `json:"p999_us"`
	MaxUs     int64         `json:"max_us"`
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
	var (
		done     atomic.Uint64
		failed   atomic.Int64
		first    atomic.Pointer[string]
		group    sync.WaitGroup
		begin    = time.Now()
		counted  = begin.Add(l.Warmup)
		end      = counted.Add(l.Duration)
		all      = newLatencies()
		interval time.Duration
	)
	if l.Rate > 0 {
		interval = time.Duration(float64(l.Clients) / l.Rate * float64(time.Second))
	}
	for c := range l.Clients {
		group.Go(func() {
			own := sample{to: all}
			defer own.flush()
			// Spread the clients of an open loop over one interval.
			due := begin.Add(interval * time.Duration(c) / time.Duration(l.Clients))
			for n := uint64(0); ; n++ {
				if interval > 0 {
					if !sleepUntil(ctx, due) {
						return
					}
				}
				start := time.Now()
				if !start.Before(end) || ctx.Err() != nil {
					return
				}
				from := start
				if interval > 0 {
					from = due
					due = due.Add(interval)
				}
				err := op(ctx, c, n)
				done.Add(1)
				if start.Before(counted) {
					continue
				}
				if err != nil {
					if ctx.Err() != nil {
						return
					}
					failed.Add(1)
					text := err.Error()
					first.CompareAndSwap(nil, &text)
					continue
				}
				own.add(time.Since(from).Microseconds())
			}
		})
	}
	if l.Progress != nil {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					l.Progress(done.Load())
				case <-stop:
					return
				}
			}
		}()
	}
	group.Wait()
	elapsed := time.Since(counted)
	m := Measure{Workload: workload, Clients: l.Clients, Rate: l.Rate, Elapsed: elapsed, Failed: failed.Load()}
	all.report(&m)
	m.Done = all.hist.TotalCount()
	m.PerSecond = float64(m.Done) / elapsed.Seconds()
	if l.Histogram {
		var err error
		if m.Histogram, err = all.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
			return m, err
		}
	}
	if text := first.Load(); text != nil {
		m.FirstError = *text
	}
	return m, context.Cause(ctx)
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
