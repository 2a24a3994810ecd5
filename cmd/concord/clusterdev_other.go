//go:build !unix

package main

import (
	"errors"
	"os/exec"
)

func isolate(*exec.Cmd) {}

func (d *devCluster) signal(*devNode, string) error {
	return errors.New("a process cannot be paused on this system")
}
