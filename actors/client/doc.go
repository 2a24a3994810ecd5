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
// # Which one do I need
//
// What people come here for is in packages below this one. Each is a lease: it warns its
// holder, in time, when another may have the right. None of them can stop a holder that
// is paused just before a write. What protects is the fencing token that comes with each
// grant, at a resource that refuses lower ones (package fence).
//
//   - One at a time, whoever comes next: mutex. Protects against two that both look
//     first; with Held.Compare or a guard also against one that was paused. Does not
//     protect a resource that cannot compare tokens, and is not fast: two writes of the
//     log for each turn.
//   - One in charge for long, and everybody must know who: election. As a mutex, and
//     Observe tells of every change, nobody included. What observers hear may be over
//     already.
//   - Many want the same result now, it is enough to compute it once: flight. Protects
//     against a stampede. Is not a cache, and not exactly-once: a run that was
//     interrupted may have had its effect.
//   - Others must find this process while it lives: registration. Says who may be asked,
//     gives no right to anything, and does not say that it works.
//   - Every change handled, also those while this process was away: consumer. Each
//     comes at least once, in order. Does not keep two consumers of a name apart, and
//     waits for whoever is away only as long as its cursor's lease lives.
//   - A copy of some keys to read at memory's speed: mirror. Never a mix of two
//     revisions, but behind the cluster: not for deciding who may do something.
//   - A right of your own kind, kept alive and lost in time: session, and keys attached
//     to its lease.
//   - A holder's signal for a right that comes from elsewhere: lease.
//   - A change that must happen only if nothing else has changed: no lock at all, but a
//     Txn with compares, which needs no lease and cannot be paused half-way.
//
// Mutex, election, flight and registration hang on a session, and end with it. Several
// may share one: then they are lost together. They need a client whose writes are
// numbered, not Config.OneShot.
//
// Package pipeline is the client's core without I/O.
package client
