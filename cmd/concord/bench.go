package main

import (
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

func (a *app) benchCommand() *cobra.Command {
	s := bench.Suite{Keys: bench.DefaultKeys}
	var (
		short, markdown bool
		cpu, base       string
		repeats         int
	)
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure fresh nodes, or the cluster at --endpoint, beside raw log proposals",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if short {
				s.Workloads, s.Clients = []string{"raw", "put"}, []int{1, 64, 1000}
				s.Warmup, s.Duration = time.Second, 4*time.Second
			}
			switch {
			case s.Keys.Count < 1 || s.Keys.ValueBytes < 0:
				return messages.InvalidField("keys", "must be at least 1, values at least 0 bytes")
			case s.Nodes < 0 || s.Nodes > 9:
				return messages.InvalidField("nodes", "%d is not in 0 to 9", s.Nodes)
			case repeats < 1 || repeats > 1000:
				return messages.InvalidField("repeats", "%d is not in 1 to 1000", repeats)
			case s.Processes < 1 || s.Processes > 100:
				return messages.InvalidField("processes", "%d is not in 1 to 100", s.Processes)
			case s.Profiles != "" && a.endpoint != "":
				return messages.InvalidField("profiles", "only nodes that the benchmark starts are profiled")
			}
			if a.endpoint != "" {
				s.Endpoints = strings.Split(a.endpoint, ",")
			}
			if s.Binary, err = os.Executable(); err != nil {
				return err
			}
			// The raw proposals run in this process.
			node.InstallLogger(slog.New(slog.DiscardHandler))
			s.Log = func(format string, args ...any) { a.note("bench: "+format, args...) }
			stop, err := profileSelf(cpu)
			if err != nil {
				return err
			}
			defer stop()
			suites := []*bench.Suite{&s}
			if base != "" {
				older := s
				if older.Binary, err = filepath.Abs(base); err != nil {
					return messages.InvalidField("base", "%v", err)
				}
				suites = []*bench.Suite{&older, &s}
			}
			reports, err := bench.Rounds(cmd.Context(), repeats, versionText(), suites...)
			if err != nil {
				return err
			}
			if base != "" {
				return bench.Compare(a.out, reports[0], reports[1])
			}
			report := reports[0]
			report.Note = "Closed loop, fsync before each acknowledgement, clients and nodes in processes of their own."
			if s.Rate > 0 {
				report.Note = "Open loop, latency from the time an operation was due, fsync before each acknowledgement, clients and nodes in processes of their own."
			}
			if a.json() && !markdown {
				return report.JSON(a.out) // every run
			}
			report.Medians()
			return report.Markdown(a.out, bench.Baseline)
		},
	}
	f := c.Flags()
	f.BoolVar(&short, "short", false, "raw proposals and puts at 1, 64 and 1000 clients, half a minute in all")
	f.BoolVar(&markdown, "markdown", false, "a Markdown table also with -o json")
	f.StringSliceVar(&s.Workloads, "workloads", []string{"raw", "put", "get"}, strings.Join(bench.Workloads, ", "))
	f.IntSliceVar(&s.Clients, "clients", []int{1, 64, 1000}, "clients, each with one operation outstanding, over at most 100 connections")
	f.IntVar(&s.Nodes, "nodes", 0, "how many nodes are started; 0 is one, and three for workloads of leases")
	f.IntVar(&repeats, "repeats", 1, "runs of everything; the table has the median of each point")
	f.StringVar(&base, "base", "", "another concord binary, measured in turn with this one; prints the ratios")
	f.StringVar(&s.Profiles, "profiles", "", "folder for CPU, heap, mutex and block profiles of each node under each workload")
	f.IntVar(&s.Processes, "processes", 1, "processes that drive the load of put, get, get-stale and mixed")
	f.BoolVar(&s.Filled, "filled", false, "the keys are there already")
	f.BoolVar(&s.Histogram, "histogram", false, "histograms of latencies in the JSON, encoded")
	f.StringVar(&cpu, "cpuprofile", "", "CPU profile of the load generator")
	f.IntVar(&s.Connections, "connections", bench.ConnectionsMax, "at most that many connections")
	f.DurationVar(&s.Warmup, "warmup", time.Second, "time before counting")
	f.DurationVar(&s.Duration, "duration", 5*time.Second, "time that counts, for each workload and number of clients")
	f.Float64Var(&s.Rate, "rate", 0, "operations a second in all (open loop); 0 is a closed loop")
	f.IntVar(&s.Keys.Count, "keys", bench.DefaultKeys.Count, "number of keys")
	f.IntVar(&s.Keys.ValueBytes, "value-bytes", bench.DefaultKeys.ValueBytes, "size of a value")
	f.StringVar(&s.Dir, "dir", ".", "where data goes, on the disk to be measured")
	return c
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
