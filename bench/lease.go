package bench

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/concord-kv/concord/actors/client"
)

// LeaseWorkloads are the workloads of leases. They run against nodes that the suite
// starts, three unless it says how many, or the cluster that it is given; clients is the
// number of leases.
//
// lease-storm lets so many leases with a key each end at one moment, with puts going on;
// its operations are the keys, their latency is from the deadline to the event that says
// the key is gone. lease-revoke revokes one lease with so many keys, with puts going on;
// its operations are the puts. lease-lateness keeps so many live and lets each end by
// itself; latency is from the deadline to the event. lease-keepalive has ten client
// processes renew so many leases as fast as they can; lease-keepalive-kill kills the
// leader on the way.
// lease-kept has one client keep so many alive for the duration.
var LeaseWorkloads = []string{"lease-storm", "lease-revoke", "lease-lateness", "lease-keepalive", "lease-keepalive-kill", "lease-kept"}

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
		if cluster, err = StartProcessCluster(ctx, s.Binary, s.Dir, cmp.Or(s.Nodes, leaseNodes)); err != nil {
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
	case "lease-keepalive", "lease-keepalive-kill":
		m, err = l.keepalive(ctx, workload == "lease-keepalive-kill")
	default:
		m, err = l.kept(ctx)
	}
	m.Workload, m.Clients = workload, n
	m.NodeRSSBytes = cluster.usage().RSSBytes
	return m, err
}

// leaseNodes is how many nodes lease workloads start.
const leaseNodes = 3

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

func (l *leases) leader(ctx context.Context) (int, uint64, error) { return l.cluster.Leader(ctx) }

// applyLongest is the longest, in milliseconds, that the log of any node has waited for
// apply.
func (l *leases) applyLongest(ctx context.Context) float64 {
	longest := int64(0)
	for _, endpoint := range l.cluster.Endpoints {
		c, err := client.New(client.Config{Endpoints: []string{endpoint}, Name: "bench", Timeout: 5 * time.Second})
		if err != nil {
			continue
		}
		if s, err := c.Status(ctx); err == nil {
			longest = max(longest, s.GetApplyLongestMs())
		}
		_ = c.Close()
	}
	return float64(longest)
}
