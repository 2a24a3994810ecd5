// Package client is the SDK: a client of a cluster, over one connection at a time to
// any of its nodes.
//
// A Client may be used by many goroutines; thousands of calls share its connection and
// what waits travels together. Every call takes a context; one without a deadline gets
// Config.Timeout. Every error is a *messages.Error: branch on its code and outcome,
// never on its text.
//
// Writes take effect at most once, whatever is lost on the way: they are numbered in a
// session that the client opens with the first of them, or carry an idempotency key. An
// error whose outcome is not_applied is final; with unknown, the write may have been
// applied or may be until the call's deadline has passed at the node.
//
// Reads are linearizable unless asked otherwise, and are repeated until the deadline.
//
// Packages below it: lease is the holder's signal, session keeps a lease alive and says
// in time when it is lost, pipeline is the client's core without I/O.
package client
