// Package registration keeps a key in the store for as long as this process lives and
// reaches the cluster: the entry of a service in a directory.
//
// The key hangs on a session of its own and goes with it. With Options.Renew the
// registration comes back on a new session when the old one is lost, and says so; a
// reader sees the key go and come.
//
// That the key is there does not mean that the process works, and that it is gone does
// not mean that the process has stopped: it says who may be asked, not who has a right.
// For a right use a mutex or an election.
package registration
