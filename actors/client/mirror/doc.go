// Package mirror keeps a local, ordered copy of the keys of a selector that follows the
// cluster.
//
// What it promises: a View is the state of the selector at one revision, never a mix of
// two; the revision of the views that a Mirror gives never goes back; and a mirror goes
// on by itself over lost connections, other nodes and compaction. Where the log has been
// compacted past it, it lists anew, at a revision that is not older than what it had,
// and shows the old view until the new one is complete.
//
// A mirror is behind the cluster by the time that an event takes. Whoever wrote at a
// revision and wants to see it waits for it: Wait.
package mirror
