package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/messages"
)

// devStopTimeout is how long a node of cluster dev may take to stop.
const devStopTimeout = 20 * time.Second

const devHelp = "kill N, start N, stop N, restart N, pause N, continue N, status, quit"

func (a *app) clusterDevCommand() *cobra.Command {
	var (
		dir   string
		nodes int
		port  int
	)
	c := &cobra.Command{
		Use:   "dev [COMMAND...]",
		Short: "Run a whole cluster on this machine, to try things out on",
		Long: "Run a whole cluster on this machine: a process for each node, on loopback. It takes commands on stdin, and\n" +
			"from another terminal as arguments: " + devHelp + ".\n" +
			"Kill is kill -9, pause is SIGSTOP. The data stays in --dir.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.tellDev(dir, strings.Join(args, " "))
			}
			if nodes < 1 || nodes > 9 {
				return messages.InvalidField("nodes", "%d is not in 1 to 9", nodes)
			}
			d := &devCluster{out: a.out, dir: dir}
			if err := d.prepare(nodes, port); err != nil {
				return err
			}
			return d.run(cmd.Context(), a.in)
		},
	}
	c.Flags().StringVar(&dir, "dir", filepath.Join("data", "cluster"), "where the nodes keep their data")
	c.Flags().IntVar(&nodes, "nodes", 3, "how many nodes")
	c.Flags().IntVar(&port, "port", 7411, "the first node's client port; the next node's is 10 higher")
	return c
}

// devCluster supervises the processes.
type devCluster struct {
	out   io.Writer
	dir   string
	bin   string
	plan  clusterPlan
	mu    sync.Mutex
	nodes map[string]*devNode // by id
	lines sync.Mutex          // whole lines to out
}

type devNode struct {
	id     string
	cmd    *exec.Cmd // nil while it does not run
	exited chan struct{}
	meant  bool // to end
}

func (d *devCluster) prepare(nodes, port int) (err error) {
	if d.bin, err = os.Executable(); err != nil {
		return err
	}
	d.plan = clusterPlan{dir: d.dir, admins: map[uint64]string{}}
	d.nodes = map[string]*devNode{}
	for i := range nodes {
		at := func(offset int) string { return fmt.Sprintf("127.0.0.1:%d", port+10*i+offset) }
		id := uint64(i + 1)
		d.plan.members = append(d.plan.members, &messages.MemberAddress{ReplicaId: id, Client: at(0), Peer: at(1), Raft: at(2)})
		d.plan.admins[id] = at(3)
		d.nodes[number(id)] = &devNode{id: number(id)}
	}
	if _, err := os.Stat(d.plan.configFile(1)); err == nil {
		_, err := os.Stat(d.plan.configFile(uint64(nodes)))
		_, more := os.Stat(d.plan.configFile(uint64(nodes + 1)))
		if err != nil || more == nil {
			return messages.InvalidField("nodes", "%s holds a cluster of another size: use another --dir or remove it", d.dir)
		}
		return nil // it goes on with the data and the ports that it has
	}
	return d.plan.write()
}

// run starts all nodes and takes commands until ctx ends or somebody says quit.
func (d *devCluster) run(ctx context.Context, in io.Reader) error {
	control, err := net.Listen("unix", d.socket())
	if err != nil {
		if c, dialled := net.Dial("unix", d.socket()); dialled == nil {
			_ = c.Close()
			return messages.NewError(messages.Code_CODE_UNAVAILABLE, "a cluster runs in %s already", d.dir)
		}
		_ = os.Remove(d.socket()) // of one that was killed
		if control, err = net.Listen("unix", d.socket()); err != nil {
			return messages.InvalidField("dir", "%v", err)
		}
	}
	defer control.Close()
	quit := make(chan struct{})
	var once sync.Once
	leave := func() { once.Do(func() { close(quit) }) }
	go d.serveControl(control, leave)
	for _, m := range d.plan.members {
		d.say("node %d: clients on %s, metrics on http://%s", m.ReplicaId, m.Client, d.plan.admins[m.ReplicaId])
		if err := d.start(d.nodes[number(m.ReplicaId)]); err != nil {
			leave()
			break
		}
	}
	d.say("commands: %s", devHelp)
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				d.say("%s", d.command(line, leave))
			}
		}
	}()
	select {
	case <-ctx.Done():
	case <-quit:
	}
	d.say("stopping")
	var group sync.WaitGroup
	for _, n := range d.nodes {
		group.Go(func() { _ = d.stop(n, os.Interrupt) })
	}
	group.Wait()
	return nil
}

func (d *devCluster) socket() string { return filepath.Join(d.dir, "control.sock") }

func (d *devCluster) say(format string, args ...any) {
	d.lines.Lock()
	defer d.lines.Unlock()
	fmt.Fprintf(d.out, format+"\n", args...)
}

func (d *devCluster) serveControl(l net.Listener, leave func()) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			line, err := bufio.NewReader(io.LimitReader(c, 256)).ReadString('\n')
			if err == nil {
				fmt.Fprintln(c, d.command(strings.TrimSpace(line), leave))
			}
		}()
	}
}

// command carries out one line and says what came of it.
func (d *devCluster) command(line string, leave func()) string {
	verb, id, _ := strings.Cut(line, " ")
	n := d.nodes[strings.TrimSpace(id)]
	if n == nil && verb != "status" && verb != "quit" {
		return "no such node; commands: " + devHelp
	}
	var err error
	switch verb {
	case "kill":
		err = d.stop(n, os.Kill)
	case "stop":
		err = d.stop(n, os.Interrupt)
	case "start":
		err = d.start(n)
	case "restart":
		if err = d.stop(n, os.Interrupt); err == nil {
			err = d.start(n)
		}
	case "pause", "continue":
		err = d.signal(n, verb)
	case "status":
		return d.status()
	case "quit":
		leave()
		return "stopping"
	default:
		return "commands: " + devHelp
	}
	if err != nil {
		return err.Error()
	}
	return "node " + n.id + ": " + verb + " done"
}

func (d *devCluster) status() string {
	d.mu.Lock()
	var parts []string
	for _, m := range d.plan.members {
		n := d.nodes[number(m.ReplicaId)]
		if n.cmd != nil {
			parts = append(parts, fmt.Sprintf("node %s runs, pid %d", n.id, n.cmd.Process.Pid))
		} else {
			parts = append(parts, "node "+n.id+" does not run")
		}
	}
	d.mu.Unlock()
	return strings.Join(parts, "\n")
}

func (d *devCluster) start(n *devNode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.cmd != nil {
		return errors.New("node " + n.id + " runs")
	}
	id, err := replicaArgument(n.id)
	if err != nil {
		return err
	}
	cmd := exec.Command(d.bin, "serve", "--config", d.plan.configFile(id))
	isolate(cmd)
	out := &devOutput{d: d, prefix: "[" + n.id + "] "}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	n.cmd, n.exited, n.meant = cmd, exited, false
	go func() {
		err := cmd.Wait()
		d.mu.Lock()
		n.cmd = nil
		meant := n.meant
		d.mu.Unlock()
		if !meant {
			d.say("node %s ended: %v", n.id, err)
		}
		close(exited)
	}()
	return nil
}

// stop ends a node by a signal and waits for it.
func (d *devCluster) stop(n *devNode, s os.Signal) error {
	d.mu.Lock()
	cmd, exited := n.cmd, n.exited
	n.meant = true
	d.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if s == os.Interrupt {
		_ = d.signal(n, "continue") // a paused one hears nothing
	}
	select {
	case <-exited:
		return nil
	case <-time.After(devStopTimeout):
		_ = cmd.Process.Kill()
		<-exited
		return errors.New("node " + n.id + " did not stop in time and was killed")
	}
}

// tellDev sends a command to the supervisor of dir.
func (a *app) tellDev(dir, line string) error {
	c, err := net.DialTimeout("unix", filepath.Join(dir, "control.sock"), 2*time.Second)
	if err != nil {
		return messages.NewError(messages.Code_CODE_UNAVAILABLE, "no cluster runs in %s: start one by `concord cluster dev`", dir)
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c, line); err != nil {
		return err
	}
	_, err = io.Copy(a.out, c)
	return err
}

// devOutput passes on whole lines under a node's name.
type devOutput struct {
	d      *devCluster
	prefix string
	rest   string
}

func (o *devOutput) Write(b []byte) (int, error) {
	text := o.rest + string(b)
	for {
		line, rest, ok := strings.Cut(text, "\n")
		if !ok {
			break
		}
		o.d.say("%s%s", o.prefix, line)
		text = rest
	}
	o.rest = text
	return len(b), nil
}
