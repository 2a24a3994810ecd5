package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/clustertest/port"
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
	// Nodes is how many nodes are started; 0 is one, and three for workloads of leases. The
	// raw log has one in any case.
	Nodes int
	// Profiles is a folder for profiles of the nodes; "" takes none.
	Profiles string
	// Processes is how many processes drive the load of put, get, get-stale and mixed;
	// 0 and 1 are this one.
	Processes int
	// Filled says that the keys are there; Histogram keeps histograms in the measures.
	Filled, Histogram bool
	// Connections bounds the connections that the clients share; 0 is ConnectionsMax.
	Connections int
	// Endpoints of a running cluster; then no node is started.
	Endpoints []string
	// PreferLeader has clients be at the leader's node, in workloads other than those of
	// leases; else they are spread.
	PreferLeader bool
	// Log is told what happens.
	Log func(format string, args ...any)
}

// Workloads are the names that a Suite knows.
//
// Of watch and watch-stalled, clients is the number of watchers; the operations are the
// events delivered, their latency is from the acknowledgement of the write. watch-idle
// has that many watchers of keys that nobody writes, and its operations are puts.
// watch-replay has that many watchers read a long log.
var Workloads = []string{"raw", "put", "get", "get-stale", "list", "txn", "mixed", "keepalive", "watch", "watch-stalled", "watch-idle", "watch-replay",
	"lease-storm", "lease-revoke", "lease-lateness", "lease-keepalive", "lease-keepalive-kill", "lease-renew", "lease-kept", "lock", "lock-handover"}

// manyProcesses are the workloads that several processes may drive: their clients know
// nothing of each other.
var manyProcesses = []string{"put", "get", "get-stale", "mixed"}

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
	var (
		node  *Process // the only one
		nodes []*Process
	)
	if len(endpoints) == 0 && slices.ContainsFunc(s.Workloads, func(w string) bool { return w != "raw" && !strings.HasPrefix(w, "lease") }) {
		if s.Nodes > 1 {
			cluster, err := StartProcessCluster(ctx, s.Binary, s.Dir, s.Nodes)
			if err != nil {
				return err
			}
			defer cluster.Stop()
			nodes, endpoints = cluster.Nodes, cluster.Endpoints
		} else {
			var err error
			if node, err = StartProcess(ctx, s.Binary, s.Dir,
				"--watches-max", "1000000", "--watches-per-client", "1000000"); err != nil {
				return err
			}
			defer func() { _ = node.Stop() }()
			nodes, endpoints = []*Process{node}, []string{node.Endpoint}
		}
	}
	filled := s.Filled
	for _, clients := range s.Clients {
		for _, w := range s.Workloads {
			s.Log("%s, %d clients", w, clients)
			if w == "raw" {
				if err := s.raw(ctx, report, clients); err != nil {
					return err
				}
				continue
			}
			if m, ok, err := s.leaseOrLock(ctx, w, clients, endpoints); err != nil {
				return err
			} else if ok {
				s.add(report, m)
				continue
			}
			if strings.HasPrefix(w, "watch") {
				m, err := s.watch(ctx, w, clients, endpoints, node)
				if err != nil {
					return err
				}
				s.add(report, m)
				continue
			}
			target, err := Dial(s.client(endpoints, 30*time.Second), s.connections(clients))
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
			err = s.measure(ctx, report, w, clients, s.op(target, w, clients), nodes, endpoints)
			target.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds a measure with the point that it belongs to.
func (s *Suite) add(report *Report, m Measure) {
	m.Nodes, m.Keys, m.ValueBytes = max(s.Nodes, 1), s.Keys.Count, s.Keys.ValueBytes
	switch {
	case len(s.Endpoints) > 0:
		m.Nodes = 0 // nobody has said how many they are
	case s.Nodes == 0 && strings.HasPrefix(m.Workload, "lease-"):
		m.Nodes = leaseNodes
	}
	report.Add(m)
}

// client is how the load's clients connect.
func (s *Suite) client(endpoints []string, timeout time.Duration) client.Config {
	cfg := client.Config{Endpoints: endpoints, Name: "bench", Timeout: timeout}
	if s.PreferLeader {
		cfg.Prefer = client.LeaderNode
	}
	return cfg
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
	case "list":
		return t.List(s.Keys)
	case "txn":
		return t.Txn(s.Keys, clients)
	case "mixed":
		return t.Mixed(s.Keys)
	}
	return t.KeepAlive(clients, time.Minute)
}

func (s *Suite) raw(ctx context.Context, report *Report, clients int) error {
	dir, err := os.MkdirTemp(s.Dir, "raw-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	address, err := port.Address()
	if err != nil {
		return err
	}
	raw, err := OpenRawLog(ctx, dir, address, s.Keys.ValueBytes)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	return s.measure(ctx, report, "raw", clients, raw.Propose(), nil, nil)
}

func (s *Suite) measure(ctx context.Context, report *Report, workload string, clients int, op Op, nodes []*Process, endpoints []string) error {
	before := usageOf(nodes)
	profiled := s.profile(ctx, workload, clients, nodes)
	var (
		m   Measure
		err error
	)
	if s.Processes > 1 && slices.Contains(manyProcesses, workload) {
		m, err = s.inProcesses(ctx, workload, clients, endpoints)
	} else {
		m, err = Load{Clients: clients, Warmup: s.Warmup, Duration: s.Duration, Rate: s.Rate, Histogram: s.Histogram}.Run(ctx, workload, op)
	}
	if err = errors.Join(err, profiled()); err != nil {
		return err
	}
	if after := usageOf(nodes); len(nodes) > 0 && m.Done > 0 {
		// The warm-up is in it, so it is a little too high.
		share := m.Elapsed.Seconds() / (m.Elapsed + s.Warmup).Seconds()
		m.NodeCPUUs = share * float64((after.CPU - before.CPU).Microseconds()) / float64(m.Done)
		m.NodeRSSBytes, m.NodeDiskBytes = after.RSSBytes, after.DiskBytes
	}
	s.add(report, m)
	return nil
}
