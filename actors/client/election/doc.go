// Package election has one leader at a time among all who campaign for a name.
//
// Candidates lead in the order in which they came. A Term is one leadership: it is
// lost, and its Lease signals it, when the session is lost or ended or somebody deletes
// its key, and it ends with Resign. Its Epoch rises from term to term and is its fencing
// token.
//
// Everybody else can ask for the Leader or Observe the changes, "nobody leads" among
// them. What they hear is who the store says leads; that one may have been told already
// that it is over, or not yet. So, as with every lease: the signal warns, the epoch
// protects. Give it to the resource (package fence), or add Term.Compare to
// transactions on the same cluster.
package election
