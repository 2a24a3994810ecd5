package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/concord-kv/concord/bench"
)

// options are the flags.
type options struct {
	concord, bin, dir, out, at      string
	systems, workloads              []string
	clients                         []int
	connections, keys, bytes, nodes int
	warmup, duration                time.Duration
	repeats                         int
	rate                            float64
}

func main() {
	var o options
	var systems, workloads, clients string
	flag.StringVar(&o.concord, "concord", "../../bin/concord", "the concord binary")
	flag.StringVar(&o.bin, "bin", "../../build/peers/bin", "where etcd and nats-server are")
	flag.StringVar(&o.dir, "dir", "../../build/peers/data", "where the members' data goes, on the disk that is meant")
	flag.StringVar(&o.out, "json", "", "file for the results as JSON, to be plotted")
	flag.StringVar(&systems, "systems", "concord,etcd,nats,zookeeper", "which, in this order; ratios are to the first")
	flag.StringVar(&workloads, "workloads", "put,get,get-stale,txn", strings.Join(workloadNames, ", "))
	flag.StringVar(&clients, "clients", "1,64,256,1000", "clients, each with one operation outstanding; of watch: watchers")
	flag.IntVar(&o.connections, "connections", bench.ConnectionsMax, "at most so many connections, spread over the members")
	flag.StringVar(&o.at, "at", "each", "members that the connections are to: each in turn, or the leader")
	flag.IntVar(&o.keys, "keys", 10_000, "number of keys; of fill and list: how many")
	flag.IntVar(&o.bytes, "value-bytes", 256, "size of a value")
	flag.IntVar(&o.nodes, "nodes", 3, "members of each cluster")
	flag.DurationVar(&o.warmup, "warmup", time.Second, "time before counting")
	flag.DurationVar(&o.duration, "duration", 3*time.Second, "time that counts, for each point")
	flag.IntVar(&o.repeats, "repeats", 1, "rounds over all systems; medians are reported")
	flag.Float64Var(&o.rate, "rate", 0, "puts a second of watch; 0: as fast as they are acknowledged")
	flag.Parse()
	o.systems, o.workloads = strings.Split(systems, ","), strings.Split(workloads, ",")
	for _, c := range strings.Split(clients, ",") {
		n, err := strconv.Atoi(c)
		if err != nil || n < 1 {
			fail(fmt.Errorf("clients: %q is no number of clients", c))
		}
		o.clients = append(o.clients, n)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The load generator shares the machine with what it measures; it has memory to spare.
	debug.SetGCPercent(400)
	var err error
	for _, path := range []*string{&o.concord, &o.bin, &o.dir} {
		if *path, err = filepath.Abs(*path); err != nil {
			fail(err)
		}
	}
	all, err := o.run(ctx)
	if o.out != "" && len(all) > 0 {
		text, merr := json.MarshalIndent(all, "", "  ")
		if merr == nil {
			merr = os.WriteFile(o.out, append(text, '\n'), 0o600)
		}
		if merr != nil {
			fail(merr)
		}
	}
	fmt.Print(table(all, o.systems))
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "peers:", err)
	os.Exit(1)
}
