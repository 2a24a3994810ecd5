// Package mutex is a lock that one holder at a time has, among all processes and
// goroutines that use the same cluster.
//
// Who waits is served in the order of arrival. Each hold is an acquisition of its own:
// two goroutines of one session exclude each other like two processes, and a lock is
// not reentrant.
//
// A hold is lost, and its Lease signals it, when the session is lost, when the session
// is ended, or when somebody deletes the hold's key. While nothing of this happens it
// lasts until Unlock. The signal comes before another holder can have the lock, as long
// as this process runs.
//
// A process that is paused may still write after another one has the lock: a lease
// warns, the fencing token protects. Give Held.Token to the resource and let it refuse
// lower ones (package fence); for keys of the same cluster add Held.Compare to the
// transaction.
package mutex
