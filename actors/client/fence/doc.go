// Package fence protects a resource from a holder that does not know yet that it was
// replaced.
//
// A lease warns its holder; it cannot stop one that is paused between its last look at
// the lease and its write. The resource can: every grant of a subject has a Token, and
// tokens rise from grant to grant, so the resource keeps the highest token that it has
// seen and refuses a lower one. That look and the write must be one step of the
// resource, which is what the guards here are about:
//
//   - Memory guards what lives in this process.
//   - SQL guards rows of a database, inside the caller's transaction.
//   - Key guards keys of the store itself, inside a Txn, by a key that keeps the highest
//     token. Where the right is a mutex or a term of the same store, the compares that
//     those give out are stricter still: they hold only while the right does.
//
// A resource that cannot compare cannot be protected by a lock, this one or any other.
package fence
