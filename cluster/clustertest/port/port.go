// Package port hands out loopback ports to programs that have to know their address
// before they listen: the members of a test cluster, a node that is started again.
//
// A port that the kernel chose and that was closed again may be taken by any outgoing
// connection before it is used. These ports lie below the range that the kernel chooses
// from, and each is locked for as long as this process lives, so that the test binaries
// of several packages never share one.
package port

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// The ports lie in [first, first+count): registered ports below 32768, where Linux
// begins to choose from (net.ipv4.ip_local_port_range).
const (
	first = 20_000
	count = 12_000
)

var (
	mu   sync.Mutex
	next = os.Getpid() * 61 % count
	held []*os.File // locks, for the life of the process
)

// Address returns a loopback address, host:port, that nothing listens on and that no
// other caller of this package on the machine gets before this process has ended.
func Address() (string, error) {
	dir := filepath.Join(os.TempDir(), "concord-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	mu.Lock()
	defer mu.Unlock()
	for range count {
		n := first + next
		next = (next + 1) % count
		lock, err := acquire(filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", n)
		l, err := net.Listen("tcp4", address)
		if err != nil {
			_ = lock.Close()
			continue
		}
		_ = l.Close()
		held = append(held, lock)
		return address, nil
	}
	return "", errors.New("port: no free loopback port")
}

// acquire locks a file for this process; the kernel unlocks it when the process ends.
func acquire(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
