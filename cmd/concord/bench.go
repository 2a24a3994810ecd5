package main

import (
	"log/slog"
	"os"
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
		short    bool
		markdown bool
		cpu      string
	)
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure a fresh node, or the cluster at --endpoint, beside raw log proposals",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				s.Workloads, s.Clients = []string{"raw", "put"}, []int{1, 64, 1000}
				s.Warmup, s.Duration = time.Second, 4*time.Second
			}
			if s.Keys.Count < 1 || s.Keys.ValueBytes < 0 {
				return messages.InvalidField("keys", "must be at least 1, values at least 0 bytes")
			}
			if a.endpoint != "" {
				s.Endpoints = strings.Split(a.endpoint, ",")
			}
			bin, err := os.Executable()
			if err != nil {
				return err
			}
			s.Binary = bin
			// The raw proposals run in this process.
			node.InstallLogger(slog.New(slog.DiscardHandler))
			s.Log = func(format string, args ...any) { a.note("bench: "+format, args...) }
			report := bench.NewReport(versionText(), "Closed loop, fsync before each acknowledgement, client and node in processes of their own.")
			if cpu != "" {
				f, err := os.Create(cpu)
				if err != nil {
					return err
				}
				defer f.Close()
				pprof.StartCPUProfile(f)
				defer pprof.StopCPUProfile()
			}
			if err := s.Run(cmd.Context(), report); err != nil {
				return err
			}
			if a.json() && !markdown {
				return report.JSON(a.out)
			}
			return report.Markdown(a.out, bench.Baseline)
		},
	}
	f := c.Flags()
	f.BoolVar(&short, "short", false, "raw proposals and puts at 1, 64 and 1000 clients, half a minute in all")
	f.BoolVar(&markdown, "markdown", false, "a Markdown table also with -o json")
	f.StringSliceVar(&s.Workloads, "workloads", []string{"raw", "put", "get"}, strings.Join(bench.Workloads, ", "))
	f.IntSliceVar(&s.Clients, "clients", []int{1, 64, 1000}, "clients, each with one operation outstanding, over at most 100 connections")
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
