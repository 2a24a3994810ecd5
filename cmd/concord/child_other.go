//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// tie returns how to signal the command. Here nothing ends it when this process dies.
func tie(cmd *exec.Cmd) (signal func(syscall.Signal)) {
	return func(s syscall.Signal) { _ = cmd.Process.Signal(s) }
}
