package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// inProcesses drives a workload from several processes, each with its share of the
// clients and connections, and puts together what they measured. They begin within the
// time that it takes to start them, so the warm-up should be longer than that.
func (s *Suite) inProcesses(ctx context.Context, workload string, clients int, endpoints []string) (Measure, error) {
	n := min(s.Processes, clients)
	var (
		group sync.WaitGroup
		parts = make([]Measure, n)
		errs  = make([]error, n)
	)
	for i := range n {
		share := clients / n
		if i < clients%n {
			share++
		}
		group.Go(func() { parts[i], errs[i] = s.inProcess(ctx, workload, share, n, endpoints) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return Measure{}, err
	}
	return merge(workload, clients, parts)
}

func (s *Suite) inProcess(ctx context.Context, workload string, clients, of int, endpoints []string) (Measure, error) {
	cmd := exec.CommandContext(ctx, s.Binary, "bench", "--endpoint", strings.Join(endpoints, ","), "--output", "json", "--histogram", "--filled",
		"--workloads", workload, "--clients", strconv.Itoa(clients), "--connections", strconv.Itoa(max(s.connections(clients*of)/of, 1)),
		"--warmup", s.Warmup.String(), "--duration", s.Duration.String(), "--rate", fmt.Sprint(s.Rate/float64(of)),
		"--prefer-leader="+strconv.FormatBool(s.PreferLeader), "--keys", strconv.Itoa(s.Keys.Count), "--value-bytes", strconv.Itoa(s.Keys.ValueBytes))
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return Measure{}, fmt.Errorf("a process of the load: %w: %s", err, problems.String())
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return Measure{}, fmt.Errorf("a process of the load: %w", err)
	}
	if len(r.Measures) != 1 {
		return Measure{}, fmt.Errorf("a process of the load measured %d points, not 1", len(r.Measures))
	}
	return r.Measures[0], nil
}

// merge adds up what several processes measured at the same time.
func merge(workload string, clients int, parts []Measure) (Measure, error) {
	m := Measure{Workload: workload, Clients: clients}
	all := newLatencies()
	for _, p := range parts {
		h, err := hdrhistogram.Decode(p.Histogram)
		if err != nil {
			return m, fmt.Errorf("a histogram of the load: %w", err)
		}
		all.hist.Merge(h)
		m.Done += p.Done
		m.Failed += p.Failed
		m.PerSecond += p.PerSecond
		m.Rate += p.Rate
		m.Elapsed = max(m.Elapsed, p.Elapsed)
		if m.FirstError == "" {
			m.FirstError = p.FirstError
		}
	}
	all.report(&m)
	m.Detail = map[string]float64{"processes": float64(len(parts))}
	return m, nil
}
