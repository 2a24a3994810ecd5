package clustertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Network stands between the nodes of a cluster: every connection from one node to
// another goes through it, and it can hold back, delay or cut what one says to another,
// in one direction or both. What is held back is delivered when the network heals, as
// TCP would.
//
// A connection's sender is found by its process: the socket of the other end belongs to
// one of the nodes.
type Network struct {
	t        testing.TB
	sourceOf func(pid int) (id uint64, ok bool)
	pids     func() []int

	mu     sync.Mutex
	change chan struct{} // closed and made anew with each change of the rules
	held   map[[2]uint64]bool
	broken map[[2]uint64]bool // held, and what is said meanwhile is lost
	// peersHeld is held for what is not Raft.
	peersHeld map[[2]uint64]bool
	delay     map[[2]uint64]time.Duration
	closed    bool
	open      map[net.Conn]bool
	work      sync.WaitGroup
	lis       []net.Listener
}

func newNetwork(t testing.TB, pids func() []int, sourceOf func(int) (uint64, bool)) *Network {
	n := &Network{
		t: t, pids: pids, sourceOf: sourceOf, change: make(chan struct{}),
		held: map[[2]uint64]bool{}, broken: map[[2]uint64]bool{}, peersHeld: map[[2]uint64]bool{}, delay: map[[2]uint64]time.Duration{}, open: map[net.Conn]bool{},
	}
	t.Cleanup(n.close)
	return n
}

// listen makes an address by which others reach node to at target.
//
// peers says that it is for what nodes pass on to each other, not for Raft.
func (n *Network) listen(to uint64, target string, peers bool) string {
	n.t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.mu.Lock()
	n.lis = append(n.lis, l)
	n.mu.Unlock()
	n.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.work.Go(func() { n.serve(c, to, target, peers) })
		}
	})
	return l.Addr().String()
}

// Hold holds back what node from says to node to.
func (n *Network) Hold(from, to uint64) { n.set(func() { n.held[[2]uint64{from, to}] = true }) }

// HoldPeers holds back what node from passes on to node to: proposals and beats, not Raft.
func (n *Network) HoldPeers(from, to uint64) {
	n.set(func() { n.peersHeld[[2]uint64{from, to}] = true })
}

// Isolate holds back everything between a group of nodes and the rest.
func (n *Network) Isolate(group []uint64, all []uint64) { n.part(n.held, group, all) }

// Sever breaks every connection between a group of nodes and the rest when something is
// said over it. Until the network heals none lasts; what was said meanwhile is lost.
func (n *Network) Sever(group []uint64, all []uint64) { n.part(n.broken, group, all) }

func (n *Network) part(rule map[[2]uint64]bool, group []uint64, all []uint64) {
	n.set(func() {
		for _, a := range all {
			for _, b := range all {
				if slices.Contains(group, a) != slices.Contains(group, b) {
					rule[[2]uint64{a, b}] = true
				}
			}
		}
	})
}

// Delay makes what from says to to take longer.
func (n *Network) Delay(from, to uint64, d time.Duration) {
	n.set(func() { n.delay[[2]uint64{from, to}] = d })
}

// Heal ends all of it.
func (n *Network) Heal() {
	n.set(func() {
		clear(n.held)
		clear(n.broken)
		clear(n.peersHeld)
		clear(n.delay)
	})
}

func (n *Network) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.change)
	n.change = make(chan struct{})
}

func (n *Network) close() {
	n.mu.Lock()
	n.closed = true
	for c := range n.open {
		_ = c.Close()
	}
	for _, l := range n.lis {
		_ = l.Close()
	}
	close(n.change)
	n.change = make(chan struct{})
	n.mu.Unlock()
	n.work.Wait()
}

// track keeps a connection to be closed at the end; false when it is over.
func (n *Network) track(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = c.Close()
		return false
	}
	n.open[c] = true
	return true
}

func (n *Network) untrack(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, c)
	_ = c.Close()
}

func (n *Network) serve(in net.Conn, to uint64, target string, peers bool) {
	if !n.track(in) {
		return
	}
	defer n.untrack(in)
	from := n.sender(in.RemoteAddr().(*net.TCPAddr))
	if !n.pass(from, to, peers) {
		return
	}
	out, err := net.DialTimeout("tcp4", target, 5*time.Second)
	if err != nil || !n.track(out) {
		return
	}
	defer n.untrack(out)
	var group sync.WaitGroup
	group.Go(func() { n.copy(out, in, from, to, peers) })
	group.Go(func() { n.copy(in, out, to, from, peers) })
	group.Wait()
}

// copy passes on what from says to to; either end's end ends both.
func (n *Network) copy(w, r net.Conn, from, to uint64, peers bool) {
	defer w.Close()
	defer r.Close()
	b := make([]byte, 64<<10)
	for {
		k, err := r.Read(b)
		if k > 0 {
			if !n.pass(from, to, peers) {
				return
			}
			if _, err := w.Write(b[:k]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the way is held; false when it is broken or the network is closed.
func (n *Network) pass(from, to uint64, peers bool) bool {
	n.mu.Lock()
	late := n.delay[[2]uint64{from, to}]
	n.mu.Unlock()
	if late > 0 {
		time.Sleep(late) //nolint:forbidigo // it is what a slow network does
	}
	for {
		n.mu.Lock()
		held, closed, change := n.held[[2]uint64{from, to}] || peers && n.peersHeld[[2]uint64{from, to}], n.closed, n.change
		closed = closed || n.broken[[2]uint64{from, to}]
		n.mu.Unlock()
		if closed {
			return false
		}
		if !held {
			return true
		}
		<-change
	}
}

// sender finds the node whose process has the other end of a connection; 0 when none
// has, which no rule is about.
func (n *Network) sender(remote *net.TCPAddr) uint64 {
	inode := socketInode(remote.Port)
	if inode == "" {
		return 0
	}
	want := "socket:[" + inode + "]"
	for _, pid := range n.pids() {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if link, err := os.Readlink(fd); err == nil && link == want {
				if id, ok := n.sourceOf(pid); ok {
					return id
				}
			}
		}
	}
	return 0
}

// socketInode finds the socket whose local port on loopback is port.
func socketInode(port int) string {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(io.LimitReader(f, 64<<20))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[9] != "0" {
			if _, err := strconv.ParseUint(fields[9], 10, 64); err == nil {
				return fields[9]
			}
		}
	}
	return ""
}
