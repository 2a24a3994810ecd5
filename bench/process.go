package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/cluster/clustertest/port"
)

// Process is a node that a benchmark started as a process of its own, with a
// directory of its own, on loopback.
type Process struct {
	Endpoint string
	admin    string // where its profiles are
	cmd      *exec.Cmd
	dir      string
	log      *os.File
}

// StartProcess runs `bin serve` with an empty directory below dir and waits until it
// answers a linearizable read.
func StartProcess(ctx context.Context, bin, dir string, extra ...string) (*Process, error) {
	endpoint, err := port.Address()
	if err != nil {
		return nil, err
	}
	return startProcessAt(ctx, bin, dir, endpoint, extra...)
}

// processQuota is room for what is measured: ten million keys, and their past.
const processQuota = 32 << 30

// startProcessAt is StartProcess at an address that is known already.
func startProcessAt(ctx context.Context, bin, dir, endpoint string, extra ...string) (*Process, error) {
	data, err := os.MkdirTemp(dir, "node-")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(data, "output.log"))
	if err != nil {
		return nil, err
	}
	admin, err := port.Address()
	if err != nil {
		return nil, err
	}
	args := append([]string{"serve", "--data-dir", filepath.Join(data, "data"), "--listen", endpoint, "--admin", admin, "--pprof",
		"--bootstrap", "quota_bytes=" + strconv.Itoa(processQuota)}, extra...)
	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = data, log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Endpoint: endpoint, admin: admin, cmd: cmd, dir: data, log: log}
	c, err := client.New(client.Config{Endpoints: []string{endpoint}, Name: "bench"})
	if err == nil {
		ready, cancel := context.WithTimeout(ctx, 30*time.Second)
		_, err = c.Revision(ready)
		cancel()
		_ = c.Close()
	}
	if err != nil {
		_ = p.Stop()
		return nil, fmt.Errorf("the node does not serve: %w", err)
	}
	return p, nil
}

// Stop ends the process and removes its directory.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	err := p.cmd.Wait()
	timer.Stop()
	_ = p.log.Close()
	if rm := os.RemoveAll(p.dir); err == nil {
		err = rm
	}
	return err
}

// Usage is what a process has used since it started.
type Usage struct {
	RSSBytes int64
	CPU      time.Duration
	// DiskBytes is what its directory takes.
	DiskBytes int64
}

// usageOf is the CPU time of all processes, and memory and disk of the one that has most.
func usageOf(nodes []*Process) (all Usage) {
	for _, n := range nodes {
		if u, err := n.Usage(); err == nil {
			all.CPU += u.CPU
			all.RSSBytes = max(all.RSSBytes, u.RSSBytes)
			all.DiskBytes = max(all.DiskBytes, u.DiskBytes)
		}
	}
	return all
}

// Usage reads the process's resident memory and CPU time from the kernel.
func (p *Process) Usage() (u Usage, err error) {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return u, err
	}
	defer status.Close()
	for s := bufio.NewScanner(io.LimitReader(status, 64<<10)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return u, err
			}
			u.RSSBytes = kib << 10
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return u, err
	}
	// The fields after the command's closing parenthesis; utime and stime are the
	// 12th and 13th of them, in ticks of 10 ms.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, i := range []int{11, 12} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return u, err
		}
		u.CPU += time.Duration(ticks) * 10 * time.Millisecond
	}
	return u, filepath.WalkDir(p.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // it comes and goes
		}
		if i, err := d.Info(); err == nil {
			if s, ok := i.Sys().(*syscall.Stat_t); ok {
				u.DiskBytes += s.Blocks * 512
			}
		}
		return nil
	})
}
