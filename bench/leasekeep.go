package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/actors/client/session"
	"github.com/concord-kv/concord/cluster/transport"
	"github.com/concord-kv/concord/messages"
)

// keepProcesses is how many client processes share the leases of lease-keepalive.
const keepProcesses = 10

// keepalive runs ten processes that renew as fast as they can, kills the leader after two
// thirds of the time if that is asked for, and counts what they lost.
func (l *leases) keepalive(ctx context.Context, kill bool) (Measure, error) {
	type result struct {
		m   Measure
		err error
	}
	total := l.Warmup + l.Duration
	before := l.cluster.usage()
	results := make(chan result, keepProcesses)
	profiled := l.profile(ctx, "lease-keepalive", l.n, l.cluster.Nodes)
	for range keepProcesses {
		go func() {
			cmd := exec.CommandContext(ctx, l.Binary, "bench", "-o", "json", "--endpoint", strings.Join(l.cluster.Endpoints, ","),
				"--workloads", "lease-renew", "--clients", fmt.Sprint(max(l.n/keepProcesses, 1)), "--warmup", l.Warmup.String(), "--duration", l.Duration.String())
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil {
				results <- result{err: fmt.Errorf("%w: %s", err, errs.String())}
				return
			}
			var r Report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Measures) != 1 {
				results <- result{err: fmt.Errorf("%w: %s", err, out.String())}
				return
			}
			results <- result{m: r.Measures[0]}
		}()
	}
	killed := 0.0
	if len(l.cluster.Nodes) > 0 && kill {
		sleepUntil(ctx, time.Now().Add(total*2/3))
		if i, _, err := l.leader(ctx); err == nil {
			l.cluster.Kill(i)
			killed = 1
		}
	}
	all := Measure{Elapsed: l.Duration, Detail: map[string]float64{"leader_killed": killed}}
	for range keepProcesses {
		r := <-results
		if r.err != nil {
			return all, r.err
		}
		all.Done += r.m.Done
		all.PerSecond += r.m.PerSecond
		all.Failed += r.m.Failed
		all.P50Us, all.P99Us, all.MaxUs = max(all.P50Us, r.m.P50Us), max(all.P99Us, r.m.P99Us), max(all.MaxUs, r.m.MaxUs)
		for name, v := range r.m.Detail {
			if name == "best_second" {
				all.Detail["best_seconds_summed"] += v
				continue
			}
			all.Detail[name] += v
		}
		if all.FirstError == "" {
			all.FirstError = r.m.FirstError
		}
	}
	if used := l.cluster.usage().CPU - before.CPU; all.Done > 0 && killed == 0 {
		all.NodeCPUUs = float64(used.Microseconds()) / float64(all.Done) * l.Duration.Seconds() / total.Seconds()
	}
	return all, profiled()
}

// kept has one client keep n sessions for the duration, as the SDK does, and counts what
// that takes.
func (l *leases) kept(ctx context.Context) (Measure, error) {
	counting := &countingDialer{Dialer: transport.NewGRPCDialer(transport.DialerOptions{})}
	cfg := l.cfg
	cfg.Dialer = counting
	c, err := client.New(cfg)
	if err != nil {
		return Measure{}, err
	}
	defer c.Close()
	sessions := make([]*session.Session, l.n)
	if err := l.each(ctx, l.n, func(ctx context.Context, i int) error {
		s, err := session.Open(ctx, c, session.Options{})
		sessions[i] = s
		return err
	}); err != nil {
		return Measure{}, err
	}
	sleepUntil(ctx, time.Now().Add(session.TTLDefault)) // until they go in step
	cpu, nodes := selfCPU(), l.cluster.usage().CPU
	sent, received := counting.sent.Load(), counting.received.Load()
	start := time.Now()
	sleepUntil(ctx, start.Add(l.Duration))
	took := time.Since(start)
	lost := 0
	for _, s := range sessions {
		if s.Lease().Err() != nil {
			lost++
		}
	}
	m := Measure{Elapsed: took, Done: int64(l.n - lost), Failed: int64(lost), Detail: map[string]float64{
		"client_cpu_percent":  100 * (selfCPU() - cpu).Seconds() / took.Seconds(),
		"nodes_cpu_percent":   100 * (l.cluster.usage().CPU - nodes).Seconds() / took.Seconds(),
		"sent_messages_per_s": float64(counting.sent.Load()-sent) / took.Seconds(),
		"read_messages_per_s": float64(counting.received.Load()-received) / took.Seconds(),
	}}
	return m, nil
}

// countingDialer counts the messages of its streams.
type countingDialer struct {
	transport.Dialer
	sent, received atomic.Int64
}

// Dial implements transport.Dialer.
func (d *countingDialer) Dial(ctx context.Context, endpoint string) (transport.ClientStream, error) {
	s, err := d.Dialer.Dial(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return &countingStream{s, d}, nil
}

type countingStream struct {
	transport.ClientStream
	d *countingDialer
}

func (s *countingStream) Send(m *messages.ClientMessage) error {
	s.d.sent.Add(1)
	return s.ClientStream.Send(m)
}

func (s *countingStream) Recv() (*messages.ServerMessage, error) {
	m, err := s.ClientStream.Recv()
	if err == nil {
		s.d.received.Add(1)
	}
	return m, err
}
