// Package expiry is the actor that ends leases whose time has run out. It works
// only while this node owns the lease clock, and it decides nothing: it asks apply
// which leases are due, proposes their end, and apply checks each of them again
// where the command stands in the log. What fails or is skipped is found due
// again.
//
// Owns: nothing that a new leader would have to rebuild. It remembers what it has
// asked and proposed, and forgets that too when the clock changes hands.
//
// Receives:
//   - messages.ClockOwned, from replica.
//   - messages.ClockTick, from the node's clock: the only time it knows.
//   - messages.DueLeasesReply and messages.EarliestDeadline, from apply.
//   - messages.Proposed, from replica.
//   - messages.LeaderChanged, which it ignores: owning the clock is what counts.
//
// Sends: messages.DueLeases to apply; messages.Propose with ExpireLeases, Tick and
// StepIndex to replica.
//
// Mailbox: unbounded; it has at most one question, four proposals of leases, one
// of index steps and one tick outstanding.
//
// On panic: fail-stop, by the middleware that the node puts around it. Dead leases
// that nobody ends are a broken promise that nobody would notice.
package expiry
