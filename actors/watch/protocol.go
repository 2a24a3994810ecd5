// Package watch is the actor that feeds the watches of one node: the hub. Every
// replica serves watches from its own apply loop, so a watch costs the leader
// nothing.
//
// Owns: for each watch its selector, cursor and credit; no events. A watch that
// has caught up is offered each commit as it is applied; one that is behind, or
// has no credit, keeps only its cursor and is fed from the change log of a view.
//
// Receives:
//   - *state.Committed, from apply: what a batch did, right after it was applied.
//   - *state.Installed, from apply: the store was replaced by a snapshot's.
//   - *state.GotView, from apply. Apply's three messages must come in the order in
//     which it made them, as one actor's messages to another do.
//   - *protocol.StartWatch, CancelWatch, GrantCredit, Drained, from sessions;
//     *protocol.SessionClosed, from sessions and the gateway.
//   - *messages.ClockTick, from the node's clock: the only time it knows.
//   - *messages.LeaderChanged, from replica.
//
// Sends: *state.GetView to apply, one at a time; *protocol.Deliver to sessions;
// *protocol.Consumers to Config.Consumers.
//
// Mailbox: unbounded; apply's messages are one a batch, and a session has at most
// its window of undelivered bytes and its calls in flight.
//
// On panic: fail-stop, by the middleware that the node puts around it. A hub that
// forgot its watches would look like silence to their clients.
package watch
