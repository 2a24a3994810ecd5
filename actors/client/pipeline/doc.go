// Package pipeline is the client's core without I/O: calls go in, messages for one
// connection come out, and what the node says comes back in. It holds what was asked
// and is not answered yet, and decides what is sent, sent again, refused or given up.
//
// It has no goroutine, no lock and no clock: whoever owns a Pipeline calls it from
// one goroutine at a time (or under one lock) and passes the time, as a duration on a
// clock that never goes back. So a simulation runs it as the client does.
//
// What it promises:
//   - every call that was accepted is completed exactly once, at its deadline at the
//     latest;
//   - reads are repeated until one succeeds; a keep-alive is sent at most once, as its
//     send time counts; a write is sent again only under the number of its
//     exactly-once session or under its idempotency key, so it takes effect at most
//     once;
//   - an error says what is known: not applied, or unknown.
package pipeline
