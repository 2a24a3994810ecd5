package bench

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/clustertest/port"
	"github.com/concord-kv/concord/messages"
)

// ProcessCluster is three nodes that a benchmark started as processes of their own.
type ProcessCluster struct {
	Nodes     []*Process
	Endpoints []string
	bin, dir  string
}

// StartProcessCluster starts n nodes with empty directories below dir and waits until
// they serve. The caller stops them.
func StartProcessCluster(ctx context.Context, bin, dir string, n int) (*ProcessCluster, error) {
	c := &ProcessCluster{bin: bin, dir: dir}
	var members []string
	var listen []string
	for i := range n {
		var addresses [3]string
		for j := range addresses {
			var err error
			if addresses[j], err = port.Address(); err != nil {
				return nil, err
			}
		}
		listen = append(listen, addresses[2])
		members = append(members, "--member", fmt.Sprintf("%d=%s,%s,%s", i+1, addresses[0], addresses[1], addresses[2]))
	}
	type started struct {
		i   int
		p   *Process
		err error
	}
	done := make(chan started, n)
	for i := range n {
		go func() {
			p, err := startProcessAt(ctx, bin, dir, listen[i], append([]string{"--replica-id", fmt.Sprint(i + 1), "--watches-max", "1000000", "--watches-per-client", "1000000"}, members...)...)
			done <- started{i, p, err}
		}()
	}
	c.Nodes = make([]*Process, n)
	var errs []error
	for range n {
		s := <-done
		if s.err != nil {
			errs = append(errs, s.err)
			continue
		}
		c.Nodes[s.i] = s.p
	}
	c.Endpoints = listen
	if err := errors.Join(errs...); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// Stop ends the nodes and removes their directories.
func (c *ProcessCluster) Stop() {
	for _, p := range c.Nodes {
		if p != nil {
			_ = p.Stop()
		}
	}
}

// Leader asks who leads; the index of its node and the raft term.
func (c *ProcessCluster) Leader(ctx context.Context) (index int, term uint64, err error) {
	k, err := client.New(client.Config{Endpoints: c.Endpoints, Name: "bench"})
	if err != nil {
		return 0, 0, err
	}
	defer k.Close()
	s, err := k.Status(ctx)
	if err != nil {
		return 0, 0, err
	}
	if s.GetLeaderId() == 0 {
		return 0, 0, errors.New("nobody leads")
	}
	return int(s.GetLeaderId()) - 1, s.GetRaftTerm(), nil
}

// Kill ends a node with SIGKILL.
func (c *ProcessCluster) Kill(index int) { _ = c.Nodes[index].cmd.Process.Signal(syscall.SIGKILL) }

// raiseLeases lets the cluster have n live leases at least.
func raiseLeases(ctx context.Context, c *client.Client, n int) error {
	config, err := c.ClusterConfig(ctx)
	if err != nil || config.GetLeasesMax() >= uint64(n)+1_000 {
		return err
	}
	_, err = c.SetClusterConfig(ctx, &messages.ClusterConfig{LeasesMax: uint64(n) + 1_000}, "leases_max")
	return err
}

// usage sums what the nodes have used.
func (c *ProcessCluster) usage() (all Usage) {
	for _, p := range c.Nodes {
		if u, err := p.Usage(); err == nil {
			all.CPU += u.CPU
			all.RSSBytes = max(all.RSSBytes, u.RSSBytes)
		}
	}
	return all
}

// selfCPU is the CPU time of this process.
func selfCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
