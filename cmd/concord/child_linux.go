package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// tie binds a command to this process: it gets SIGKILL when this process dies, for
// nobody would tell it of a loss then. Unless a person types to it, it and what it starts
// are a process group, and signals go to all of them.
func tie(cmd *exec.Cmd) (signal func(syscall.Signal)) {
	group := !typed(cmd)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: group}
	return func(s syscall.Signal) {
		pid := cmd.Process.Pid
		if group {
			pid = -pid
		}
		_ = syscall.Kill(pid, s)
	}
}

// typed tells whether the command reads from a terminal, which only the foreground
// group may.
func typed(cmd *exec.Cmd) bool {
	f, ok := cmd.Stdin.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
