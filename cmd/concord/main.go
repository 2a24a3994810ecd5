// Command concord is a node of the store and a client of it.
//
// The client commands print text for people, or JSON with -o json; errors go to
// stderr in the same form. Values and keys are bytes: get prints a value as it is, the
// other commands quote what is not printable, and JSON has key_base64 and value_base64
// in place of key and value where they are not UTF-8.
//
// The exit codes are the same for every command: see exitCodes, or concord help exit-codes.
//
// A write carries an idempotency key: it is repeated until --timeout has passed, takes
// effect at most once, and when its outcome is then unknown it is looked up and, if it
// has not arrived, fenced off.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(mainCode()) }

func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{in: os.Stdin, out: &output{Writer: os.Stdout}, err: os.Stderr, getenv: os.Getenv}
	return a.run(ctx, os.Args[1:])
}
