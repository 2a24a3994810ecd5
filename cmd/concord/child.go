package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/concord-kv/concord/actors/client/lease"
	"github.com/concord-kv/concord/messages"
)

// childExit is how a command ended that ran for us: its exit code is ours.
type childExit struct{ code int }

func (e childExit) Error() string { return fmt.Sprintf("the command ended with code %d", e.code) }

// command splits NAME... -- CMD ARG... at the dashes; before is how many come first.
func command(args []string, dash, before int) ([]string, error) {
	switch {
	case dash < 0 || dash == len(args):
		return nil, messages.InvalidField("arguments", "a command is needed after --")
	case dash != before:
		return nil, messages.InvalidField("arguments", "%d arguments before --, want %d", dash, before)
	}
	return args[dash:], nil
}

// runWhile runs a command for as long as the lease is held. When that is lost, or ctx is
// over, the command gets SIGTERM and after grace SIGKILL; runWhile returns when it has
// ended, so that what is released then is not in use any more.
func (a *app) runWhile(ctx context.Context, l *lease.Lease, grace time.Duration, argv, env []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, plain(a.out), a.err
	cmd.Env = append(os.Environ(), env...)
	signal := tie(cmd)
	started, exited := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel ends the command with the thread that started it.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return messages.InvalidField("arguments", "%v", err)
	}
	var end error
	select {
	case end = <-exited:
	case <-l.Context().Done():
		a.note("concord: lost, ending the command")
		end = stop(signal, exited, grace)
	case <-ctx.Done():
		end = stop(signal, exited, grace)
	}
	if err := l.Err(); errors.Is(err, lease.ErrLost) {
		return err
	}
	return childResult(end)
}

// stop ends a command and returns how it ended.
func stop(signal func(syscall.Signal), exited <-chan error, grace time.Duration) error {
	signal(syscall.SIGTERM)
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case end := <-exited:
		return end
	case <-late.C:
	}
	signal(syscall.SIGKILL)
	return <-exited
}

func childResult(err error) error {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return err
	}
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return childExit{128 + int(s.Signal())}
	}
	return childExit{e.ExitCode()}
}
