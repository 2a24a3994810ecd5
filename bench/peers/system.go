package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Conn is one connection of a system's own client library; many goroutines share it.
type Conn interface {
	Put(ctx context.Context, key string, value []byte) error
	// Get reads the latest acknowledged value, or whatever the member has if stale.
	Get(ctx context.Context, key string, stale bool) error
	// List reads all below a prefix and returns how many there were.
	List(ctx context.Context, prefix string) (int, error)
	// Swap writes key if its version is the one given, 0 for "read it first", and returns
	// the new one.
	Swap(ctx context.Context, key string, value []byte, version uint64) (uint64, error)
	// Load writes many keys as fast as the system allows.
	Load(ctx context.Context, keys []string, value []byte) error
	// Watch calls event for each change below prefix with the value written. It returns
	// when the watch is in place; it ends with ctx.
	Watch(ctx context.Context, prefix string, event func(value []byte)) error
	Close()
}

// System starts clusters and connects to them.
type System interface {
	// Start starts n members with data below dir and returns once they serve.
	Start(ctx context.Context, dir string, n int) error
	// Dial connects to member i, modulo the number of members.
	Dial(i int) (Conn, error)
	// Leader returns which member leads.
	Leader(ctx context.Context) (int, error)
	// Restart kills member 0 and starts it again with its data.
	Restart(ctx context.Context) error
	Members() *members
}

// newSystem returns a system by its name.
func newSystem(name string, o *options) (System, error) {
	switch name {
	case "concord":
		return &concordSystem{bin: o.concord}, nil
	case "etcd":
		return &etcdSystem{bin: o.bin}, nil
	case "nats":
		return &natsSystem{bin: o.bin}, nil
	case "zookeeper":
		return &zkSystem{}, nil
	}
	return nil, fmt.Errorf("no system is called %q", name)
}

// members are the processes of a cluster.
type members struct {
	dir   string
	cmds  []*exec.Cmd
	lines [][]string // command lines, to start one again
}

func (m *members) Members() *members { return m }

// run starts a member and remembers how.
func (m *members) run(line ...string) error {
	i := len(m.cmds)
	m.lines = append(m.lines, line)
	m.cmds = append(m.cmds, nil)
	return m.start(i)
}

func (m *members) start(i int) error {
	log, err := os.OpenFile(filepath.Join(m.dir, fmt.Sprintf("member%d.log", i+1)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(m.lines[i][0], m.lines[i][1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, log, log
	m.cmds[i] = cmd
	return cmd.Start()
}

// kill ends a member with SIGKILL.
func (m *members) kill(i int) {
	if c := m.cmds[i]; c != nil && c.Process != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
		m.cmds[i] = nil
	}
}

// stop ends all members and removes their data.
func (m *members) stop() {
	for _, c := range m.cmds {
		if c != nil && c.Process != nil {
			_ = c.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, c := range m.cmds {
		if c == nil || c.Process == nil {
			continue
		}
		t := time.AfterFunc(10*time.Second, func() { _ = c.Process.Kill() })
		_ = c.Wait()
		t.Stop()
	}
	_ = os.RemoveAll(m.dir)
}

// usage is what the members have used since they started: CPU time, and the memory of
// the largest.
func (m *members) usage() (cpu time.Duration, rss int64) {
	for _, c := range m.cmds {
		if c == nil {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if err != nil {
			continue
		}
		// After the command's closing parenthesis: utime and stime are the 12th and 13th
		// field, in ticks of 10 ms, the resident pages the 22nd.
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, at := range []int{11, 12} {
			ticks, _ := strconv.ParseInt(f[at], 10, 64)
			cpu += time.Duration(ticks) * 10 * time.Millisecond
		}
		pages, _ := strconv.ParseInt(f[21], 10, 64)
		rss = max(rss, pages*int64(os.Getpagesize()))
	}
	return cpu, rss
}

// disk is how much the members' data takes.
func (m *members) disk() (bytes int64) {
	_ = filepath.Walk(m.dir, func(_ string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() {
			if s, ok := i.Sys().(*syscall.Stat_t); ok {
				bytes += s.Blocks * 512
			}
		}
		return nil
	})
	return bytes
}

// ports returns n addresses of this host that were free a moment ago.
func ports(n int) ([]string, error) {
	all := make([]string, n)
	for i := range all {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all[i] = l.Addr().String()
	}
	return all, nil
}

// await tries until it works.
func await(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		once, done := context.WithTimeout(ctx, 2*time.Second)
		err := try(once)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
