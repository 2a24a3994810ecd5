package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/mutex"
	"github.com/concord-kv/concord/actors/client/session"
)

// LockWorkloads are the workloads of mutexes. lock has so many clients each lock and
// unlock a mutex of its own; lock-handover has so many processes' worth of clients, each
// with its own connection, take turns at one, and latency is from one's Unlock to the
// next one's Lock.
var LockWorkloads = []string{"lock", "lock-handover"}

func (s *Suite) lock(ctx context.Context, workload string, n int, endpoints []string) (Measure, error) {
	cfg := s.client(endpoints, time.Minute)
	if workload == "lock-handover" {
		return s.handover(ctx, cfg, n)
	}
	target, err := Dial(cfg, s.connections(n))
	if err != nil {
		return Measure{}, err
	}
	defer target.Close()
	locks := make([]*mutex.Mutex, n)
	for i := range locks {
		own, err := session.Open(ctx, target.of(i), session.Options{})
		if err != nil {
			return Measure{}, err
		}
		if locks[i], err = mutex.New(own, fmt.Sprintf("bench-%d", i)); err != nil {
			return Measure{}, err
		}
	}
	return Load{Clients: n, Warmup: s.Warmup, Duration: s.Duration}.Run(ctx, workload, func(ctx context.Context, c int, _ uint64) error {
		h, err := locks[c].Lock(ctx)
		if err != nil {
			return err
		}
		return h.Unlock(ctx)
	})
}

func (s *Suite) handover(ctx context.Context, cfg client.Config, n int) (Measure, error) {
	if n < 2 {
		return Measure{}, fmt.Errorf("clients: a handover takes two")
	}
	target, err := Dial(cfg, min(n, ConnectionsMax))
	if err != nil {
		return Measure{}, err
	}
	defer target.Close()
	var (
		group    sync.WaitGroup
		mu       sync.Mutex
		hist     = newHist()
		released time.Time
		first    error
	)
	begin := time.Now()
	counted, end := begin.Add(s.Warmup), begin.Add(s.Warmup+s.Duration)
	for i := range n {
		group.Go(func() {
			err := func() error {
				own, err := session.Open(ctx, target.of(i), session.Options{})
				if err != nil {
					return err
				}
				m, err := mutex.New(own, "bench-handover")
				if err != nil {
					return err
				}
				for time.Now().Before(end) && ctx.Err() == nil {
					h, err := m.Lock(ctx)
					if err != nil {
						return err
					}
					mu.Lock()
					now := time.Now()
					if !released.IsZero() && now.After(counted) {
						_ = hist.RecordValue(min(max(now.Sub(released).Microseconds(), latencyMinUs), latencyMaxUs))
					}
					released = time.Now()
					mu.Unlock()
					if err := h.Unlock(ctx); err != nil {
						return err
					}
				}
				return own.Close(ctx)
			}()
			if err != nil {
				mu.Lock()
				first = err
				mu.Unlock()
			}
		})
	}
	group.Wait()
	m := measureOf(hist, s.Duration)
	m.Workload, m.Clients = "lock-handover", n
	return m, first
}
