package bench

import (
	"context"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

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
