package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/node"
	"github.com/concord-kv/concord/bench"
	"github.com/concord-kv/concord/messages"
)

// benchRun is one run of the command, as its flags say.
type benchRun struct {
	bench.Suite
	short, markdown bool
	cpu, base       string
	repeats         int
}

func (a *app) benchCommand() *cobra.Command {
	b := &benchRun{Suite: bench.Suite{Keys: bench.DefaultKeys}}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure fresh nodes, or the cluster at --endpoint, beside raw log proposals",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.short {
				b.Workloads, b.Clients = []string{"raw", "put"}, []int{1, 64, 1000}
				b.Warmup, b.Duration = time.Second, 4*time.Second
			}
			if err := b.check(a.endpoint != ""); err != nil {
				return err
			}
			return a.bench(cmd.Context(), b)
		},
	}
	f, s := c.Flags(), &b.Suite
	f.BoolVar(&b.short, "short", false, "raw proposals and puts at 1, 64 and 1000 clients, half a minute in all")
	f.BoolVar(&b.markdown, "markdown", false, "a Markdown table also with -o json")
	f.StringSliceVar(&s.Workloads, "workloads", []string{"raw", "put", "get"}, strings.Join(bench.Workloads, ", "))
	f.IntSliceVar(&s.Clients, "clients", []int{1, 64, 1000}, "clients, each with one operation outstanding, over at most 100 connections")
	f.IntVar(&s.Nodes, "nodes", 0, "how many nodes are started; 0 is one, and three for workloads of leases")
	f.IntVar(&b.repeats, "repeats", 1, "runs of everything; the table has the median of each point")
	f.StringVar(&b.base, "base", "", "another concord binary, measured in turn with this one; prints the ratios")
	f.StringVar(&s.Profiles, "profiles", "", "folder for CPU, heap, mutex and block profiles of each node under each workload")
	f.IntVar(&s.Processes, "processes", 1, "processes that drive the load of put, get, get-stale and mixed")
	f.BoolVar(&s.Filled, "filled", false, "the keys are there already")
	f.BoolVar(&s.Histogram, "histogram", false, "histograms of latencies in the JSON, encoded")
	f.StringVar(&b.cpu, "cpuprofile", "", "CPU profile of the load generator")
	f.IntVar(&s.Connections, "connections", bench.ConnectionsMax, "at most that many connections")
	f.BoolVar(&s.PreferLeader, "prefer-leader", false, "clients are at the leader's node, not spread over all")
	f.DurationVar(&s.Warmup, "warmup", time.Second, "time before counting")
	f.DurationVar(&s.Duration, "duration", 5*time.Second, "time that counts, for each workload and number of clients")
	f.Float64Var(&s.Rate, "rate", 0, "operations a second in all (open loop); 0 is a closed loop")
	f.IntVar(&s.Keys.Count, "keys", bench.DefaultKeys.Count, "number of keys")
	f.IntVar(&s.Keys.ValueBytes, "value-bytes", bench.DefaultKeys.ValueBytes, "size of a value")
	f.StringVar(&s.Dir, "dir", ".", "where data goes, on the disk to be measured")
	return c
}

// check reports the first flag that makes no sense. running says that the nodes run already.
func (b *benchRun) check(running bool) error {
	switch {
	case b.Keys.Count < 1 || b.Keys.ValueBytes < 0:
		return messages.InvalidField("keys", "must be at least 1, values at least 0 bytes")
	case b.Nodes < 0 || b.Nodes > 9:
		return messages.InvalidField("nodes", "%d is not in 0 to 9", b.Nodes)
	case b.repeats < 1 || b.repeats > 1000:
		return messages.InvalidField("repeats", "%d is not in 1 to 1000", b.repeats)
	case b.Processes < 1 || b.Processes > 100:
		return messages.InvalidField("processes", "%d is not in 1 to 100", b.Processes)
	case b.Profiles != "" && running:
		return messages.InvalidField("profiles", "only nodes that the benchmark starts are profiled")
	}
	return nil
}

// bench measures and reports.
func (a *app) bench(ctx context.Context, b *benchRun) (err error) {
	if a.endpoint != "" {
		b.Endpoints = strings.Split(a.endpoint, ",")
	}
	if b.Binary, err = os.Executable(); err != nil {
		return err
	}
	// The raw proposals run in this process.
	node.InstallLogger(slog.New(slog.DiscardHandler))
	b.Log = func(format string, args ...any) { a.note("bench: "+format, args...) }
	stop, err := profileSelf(b.cpu)
	if err != nil {
		return err
	}
	defer stop()
	suites := []*bench.Suite{&b.Suite}
	if b.base != "" {
		older := b.Suite
		if older.Binary, err = filepath.Abs(b.base); err != nil {
			return messages.InvalidField("base", "%v", err)
		}
		suites = []*bench.Suite{&older, &b.Suite}
	}
	reports, err := bench.Rounds(ctx, b.repeats, versionText(), suites...)
	if err != nil {
		return err
	}
	if b.base != "" {
		return bench.Compare(a.out, reports[0], reports[1])
	}
	return a.benchReport(b, reports[0])
}

func (a *app) benchReport(b *benchRun, report *bench.Report) error {
	loop := "Closed loop"
	if b.Rate > 0 {
		loop = "Open loop, latency from the time an operation was due"
	}
	report.Note = loop + ", fsync before each acknowledgement, clients and nodes in processes of their own."
	if a.json() && !b.markdown {
		return report.JSON(a.out) // every run
	}
	report.Medians()
	return report.Markdown(a.out, bench.Baseline)
}

// profileSelf writes the CPU profile of this process to a file, if one is named, until
// stop is called.
func profileSelf(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, messages.InvalidField("cpuprofile", "%v", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}
