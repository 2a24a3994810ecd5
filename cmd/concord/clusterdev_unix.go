//go:build unix

package main

import (
	"errors"
	"os/exec"
	"syscall"
)

// isolate keeps a terminal's ^C from a node: the supervisor stops it in order.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func (d *devCluster) signal(n *devNode, verb string) error {
	s := syscall.SIGSTOP
	if verb == "continue" {
		s = syscall.SIGCONT
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.cmd == nil {
		return errors.New("node " + n.id + " does not run")
	}
	return n.cmd.Process.Signal(s)
}
