// Package flight runs a function once for all who ask for the same key at the same
// time, among all processes that use the same cluster.
//
// The first to ask runs it; who asks while it runs joins and gets what it came to: its
// value, a *FailedError when it returned an error, an *InterruptedError when it came to
// nothing because its process died, lost the right or panicked. It is not a cache: who
// asks after the run has ended starts another.
//
// Cancelling the context of a call withdraws that call alone. The run goes on, because
// another process may wait for it; its own context ends when its lease is lost, and
// with that what it returns is discarded.
//
// A run whose process is paused can overlap with the next one. What it writes must be
// protected by its fencing token, Run.Token.
package flight
