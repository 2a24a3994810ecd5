// Package store holds the keys: the newest record of each (Current), every event
// since the compact revision (the change log, which is also the history), and for
// protected prefixes the history below it. It knows records and revisions, no
// lease, no configuration and no clock.
//
// # How it is laid out
//
// A stored version is a [Rec]: one immutable string with its header, key and value.
// Current is a copy-on-write B+tree of them. The log is an array of entries {record,
// the record it replaced, distance to the entry of that one}: a key's history is the
// chain from its newest record down. Because an entry holds the record it replaced,
// the state at the compact revision needs no table of its own: what was current then
// is either still in the tree or hangs on the first event after it.
//
// # Compaction
//
// [Store.Compact] moves the compact revision C: from then on the state before C
// cannot be read and events up to C cannot be replayed. Nothing is freed yet.
// [Store.Sweep] frees memory later, in bounded steps. How far it has come changes no
// answer, no digest, no count of bytes and no snapshot.
//
// # Use
//
// A Store belongs to one goroutine. A [View] is the store frozen between two calls
// of Put, made in constant time; it keeps its own C and its own data whatever the
// store does later, and any number of goroutines may read it.
package store
