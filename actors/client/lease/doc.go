// Package lease is the holder's side of a lease: a signal.
//
// A Lease is the right of one holder to act for a subject, such as the key of a
// mutex or the leadership of an election. It is lost when another holder may have
// the right now; then its context is cancelled, once. It is ended when the holder
// gave the right up; then nothing is signalled.
//
// An issuer keeps the Controller and hands out the Lease, as context.WithCancelCause
// splits its two results. The package has no timer, no clock, no network and no
// renewal, so that any issuer can use it: package session is the one of this store.
//
// A lease warns; it does not protect. A holder that is paused can write after
// another one was granted the right. To protect a resource, let it refuse a lower
// fencing token than the highest it has seen.
package lease
