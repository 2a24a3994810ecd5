// Package apply is the actor that owns the state machine. Entries of the log come
// in, one message for each batch of the log, and are answered once; frozen views
// go out to whoever reads.
//
// Owns: state.Machine, alone. Nobody else touches it; readers get views.
//
// Receives:
//   - the log's batches, and its wishes to freeze and to restore, through Applier.
//   - state.GetView, from session and watch. Answered by state.GotView.
//   - messages.DueLeases, from expiry. Answered by messages.DueLeasesReply.
//   - messages.AskClockOwner, from replica. Answered by messages.ClockOwner.
//   - sweepNotice, from itself: more of what was compacted waits to be freed.
//
// Sends: state.Committed and state.Installed to watch, messages.ClockOwner to replica when a batch or
// a snapshot changed the owner of the clock, messages.EarliestDeadline to expiry
// when a deadline came before the one it was told last.
//
// Mailbox: unbounded. The log has one batch out at a time; readers are bounded by
// their sessions. Readers that wait for an index have a bound here, beyond which
// they get a nil view.
//
// It waits for nobody: the log waits for it.
//
// On panic: fail-stop, by the middleware that the node puts around it. The log
// would wait for ever for an actor that died quietly, and one that was restarted
// would serve an empty store.
package apply
