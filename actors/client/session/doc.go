// Package session keeps one lease of a client alive and says in time when it is lost.
// It is the issuer behind a lease.Lease: it owns the deadline by which the holder must
// have stopped, its one timer, and the send times of the keep-alives.
//
// The deadline is, over all confirmed requests, the latest of
//
//	S + ttl x (1 - epsilon) - sigma - W
//
// where S is the client's clock before the request was queued, epsilon allows for
// clocks whose rates differ, sigma for a timer that runs late, and W is time to stop in.
// The cluster counts the same ttl from a stamp that it takes after it has received the
// request, so the holder's deadline comes first in real time, however long a message
// took. Counting from the reply instead would not give that; nor would a timeout taken
// for a success.
//
// A process that is paused past the deadline sees the loss when it runs again, and may
// by then have been replaced: what it changes must be protected by a fencing token.
package session
