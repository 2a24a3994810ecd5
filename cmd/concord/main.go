// Command concord is a node of the store and a client of it.
//
// The client commands print text for people, or JSON with -o json; errors go to
// stderr in the same form. Values and keys are bytes: get prints a value as it is, the
// other commands quote what is not printable, and JSON has key_base64 and value_base64
// in place of key and value where they are not UTF-8.
//
// Exit codes, the same for every command:
//
//	0    done
//	1    not found: the key, lease, index, cursor or idempotency key does not exist
//	2    bad arguments, or input that the store refuses by its form; nothing was sent or applied
//	3    refused by the state of the store (compacted, lease_conflict, no_space, ...); not applied
//	4    the cluster cannot take it now (unavailable, no_leader, overloaded, timeout, ...); not applied
//	5    nobody knows whether the write was applied; `concord resolve` may tell
//	6    not allowed
//	7    a condition did not hold (--if-absent, --if-exists, --if-revision, txn --check); not applied
//	70   a defect of ours
//	130  interrupted
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
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
	return a.run(ctx, os.Args[1:])
}
