package bench

import (
	"context"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// renewTTL is the ttl of the leases that lease-renew keeps.
const renewTTL = 15 * time.Second

// renewal is one process of lease-keepalive: every lease has one keep-alive outstanding.
// What is answered together is sent again together, by one goroutine.
type renewal struct {
	client *client.Client
	leases []renewed

	mu    sync.Mutex
	ready sync.Cond
	idle  []int // leases without a keep-alive outstanding

	counted, end time.Time
	hist         *hdrhistogram.Histogram
	lost         map[uint64]bool
	again        int64
	seconds      [1 << 12]int64
	first        string
}

type renewed struct {
	op   *messages.Operation
	id   uint64
	sent time.Time
}

// renew keeps n leases for the time of the suite.
func (s *Suite) renew(ctx context.Context, n int) (Measure, error) {
	c, err := client.New(client.Config{Endpoints: s.Endpoints, Name: "bench", Timeout: 10 * time.Second})
	if err != nil {
		return Measure{}, err
	}
	defer c.Close()
	r := &renewal{client: c, leases: make([]renewed, n), hist: newHist(), lost: map[uint64]bool{}}
	r.ready.L = &r.mu
	ids, err := grantMany(c, n, time.Now().Add(renewTTL))
	if err != nil {
		return Measure{}, err
	}
	for i, id := range ids {
		r.leases[i] = renewed{id: id, op: &messages.Operation{Operation: &messages.Operation_Write{Write: &messages.Write{
			Op: &messages.Write_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{LeaseId: id}},
		}}}}
		r.idle = append(r.idle, i)
	}
	r.counted = time.Now().Add(s.Warmup)
	r.end = r.counted.Add(s.Duration)
	r.run(ctx)
	m := measureOf(r.hist, s.Duration)
	best := int64(0)
	for _, v := range r.seconds {
		best = max(best, v)
	}
	m.Workload, m.Clients, m.Failed, m.FirstError = "lease-renew", n, int64(len(r.lost)), r.first
	m.Detail = map[string]float64{"leases_lost": float64(len(r.lost)), "sent_again": float64(r.again), "best_second": float64(best)}
	return m, nil
}

// run sends until the end, and returns when the last answer is there.
func (r *renewal) run(ctx context.Context) {
	var batch []int
	for {
		r.mu.Lock()
		for len(r.idle) == 0 {
			r.ready.Wait()
		}
		now := time.Now()
		if now.After(r.end) || ctx.Err() != nil {
			for len(r.idle) < len(r.leases) {
				r.ready.Wait()
			}
			r.mu.Unlock()
			return
		}
		batch, r.idle = r.idle, batch[:0]
		r.mu.Unlock()
		for _, i := range batch {
			l := &r.leases[i]
			l.sent = now
			if err := r.client.Start(l.op, 5*time.Second, func(_ *messages.Reply, err error) { r.answered(i, err) }); err != nil {
				r.answered(i, err)
			}
		}
	}
}

// answered runs on the client's goroutines.
func (r *renewal) answered(i int, err error) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.leases[i]
	switch {
	case err == nil:
		if l.sent.After(r.counted) {
			record(r.hist, now.Sub(l.sent))
			r.seconds[min(int(now.Sub(r.counted)/time.Second), len(r.seconds)-1)]++
		}
	case messages.CodeOf(err) == messages.Code_CODE_LEASE_NOT_FOUND:
		r.lost[l.id] = true
	default:
		if r.again++; r.first == "" {
			r.first = err.Error()
		}
	}
	r.idle = append(r.idle, i)
	r.ready.Signal()
}
