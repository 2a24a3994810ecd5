// Package replica is the actor that owns the node's replica of the log. Commands
// from sessions and from this node's own actors come in, entries of the log go
// out, results come back, and each command is answered once: with its result, or
// with an error that says whether it may have been applied.
//
// Owns: what is known about the leader, the right to stamp the lease clock, the
// commands that wait, the entries in flight, the reads that wait for a barrier.
//
// Receives:
//   - messages.Propose: from a session, expiry, watch or node. Answered to the
//     sender by messages.Proposed, once for each command. While another node leads
//     it goes to that node, and its answers come back from there.
//   - FromPeer: the same from another node, which takes this one for the leader.
//   - messages.ReadBarrier: from a session. Answered by messages.BarrierReached.
//   - messages.ClockTick: from the node's clock. All its timeouts hang on it.
//   - messages.ClockOwner: from apply.
//   - its own notices from the log's goroutines: leaderNotice, entryNotice,
//     barrierNotice; relayNotice from the links to peers; and flushNotice from itself.
//
// Sends: messages.LeaderChanged to the subscribers of Config, messages.ClockOwned
// to expiry, messages.AskClockOwner to apply.
//
// Mailbox: unbounded; what it holds is bounded where it comes in. A Propose beyond
// Limits is refused as overloaded with a time to wait. Commands of this node's own
// actors have a queue and a bound of their own and go first: expiry is never
// refused because clients are many.
//
// On panic: fail-stop, by the middleware that the node puts around it. It stamps
// the lease clock; a restart with fresh state would forget what is in flight.
package replica
