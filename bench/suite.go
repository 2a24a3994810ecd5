package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/concord-kv/concord/actors/client"
)

// Suite is one benchmark run: a fresh node process for the workloads, and raw
// proposals beside them.
type Suite struct {
	// Binary is the concord binary whose node is measured.
	Binary string
	// Dir is where data goes; it should be on the disk that is meant.
	Dir       string
	Workloads []string
	Clients   []int
	Keys      Keys
	Warmup    time.Duration
	Duration  time.Duration
	Rate      float64
	// Connections bounds the connections that the clients share; 0 is ConnectionsMax.
	Connections int
	// Endpoints of a running cluster; then no node is started.
	Endpoints []string
	// Log is told what happens.
	Log func(format string, args ...any)
}

// Workloads are the names that a Suite knows.
//
// Of watch and watch-stalled, clients is the number of watchers; the operations are the
// events delivered, their latency is from the acknowledgement of the write. watch-idle
// has that many watchers of keys that nobody writes, and its operations are puts.
// watch-replay has that many watchers read a long log.
var Workloads = []string{"raw", "put", "get", "get-stale", "keepalive", "watch", "watch-stalled", "watch-idle", "watch-replay"}

// Baseline names for each workload the one it is compared with.
var Baseline = map[string]string{"put": "raw", "watch-stalled": "watch"}

// Run runs the suite and adds each measure to the report as it comes.
func (s *Suite) Run(ctx context.Context, report *Report) error {
	for _, w := range s.Workloads {
		if !slices.Contains(Workloads, w) {
			return fmt.Errorf("workload: no workload is called %q; there are %v", w, Workloads)
		}
	}
	endpoints := s.Endpoints
	var node *Process
	if len(endpoints) == 0 && slices.ContainsFunc(s.Workloads, func(w string) bool { return w != "raw" }) {
		var err error
		if node, err = StartProcess(ctx, s.Binary, s.Dir,
			"--watches-max", "1000000", "--watches-per-client", "1000000"); err != nil {
			return err
		}
		defer func() { _ = node.Stop() }()
		endpoints = []string{node.Endpoint}
	}
	filled := false
	for _, clients := range s.Clients {
		for _, w := range s.Workloads {
			s.Log("%s, %d clients", w, clients)
			if w == "raw" {
				if err := s.raw(ctx, report, clients); err != nil {
					return err
				}
				continue
			}
			if strings.HasPrefix(w, "watch") {
				m, err := s.watch(ctx, w, clients, endpoints, node)
				if err != nil {
					return err
				}
				report.Add(m)
				continue
			}
			target, err := Dial(client.Config{Endpoints: endpoints, Name: "bench", Timeout: 30 * time.Second}, s.connections(clients))
			if err != nil {
				return err
			}
			if !filled {
				if err = target.Fill(ctx, s.Keys); err != nil {
					target.Close()
					return err
				}
				filled = true
			}
			err = s.measure(ctx, report, w, clients, s.op(target, w, clients), node)
			target.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Suite) connections(clients int) int {
	if s.Connections > 0 {
		return min(clients, s.Connections)
	}
	return clients
}

func (s *Suite) op(t *Target, workload string, clients int) Op {
	switch workload {
	case "put":
		return t.Put(s.Keys)
	case "get":
		return t.Get(s.Keys, false)
	case "get-stale":
		return t.Get(s.Keys, true)
	}
	return t.KeepAlive(clients, time.Minute)
}

func (s *Suite) raw(ctx context.Context, report *Report, clients int) error {
	dir, err := os.MkdirTemp(s.Dir, "raw-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	address, err := freeAddress()
	if err != nil {
		return err
	}
	raw, err := OpenRawLog(ctx, dir, address, s.Keys.ValueBytes)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	return s.measure(ctx, report, "raw", clients, raw.Propose(), nil)
}

func (s *Suite) measure(ctx context.Context, report *Report, workload string, clients int, op Op, node *Process) error {
	var before Usage
	if node != nil {
		before, _ = node.Usage()
	}
	m, err := Load{Clients: clients, Warmup: s.Warmup, Duration: s.Duration, Rate: s.Rate}.Run(ctx, workload, op)
	if err != nil {
		return err
	}
	if node != nil {
		if after, err := node.Usage(); err == nil && m.Done > 0 {
			// The warm-up is in it, so it is a little too high.
			share := m.Elapsed.Seconds() / (m.Elapsed + s.Warmup).Seconds()
			m.NodeCPUUs = share * float64((after.CPU - before.CPU).Microseconds()) / float64(m.Done)
			m.NodeRSSBytes = after.RSSBytes
		}
	}
	report.Add(m)
	return nil
}
