// Package sim runs whole clusters of Concord in one process, deterministically: the
// production node with all its actors and the state machine, over the log in memory
// (consensus/memlog), the production links between nodes, and the production SDK, over a
// network that fails as told. A
// seed replays a run exactly.
//
// # One thing at a time
//
// A World holds everything that may happen next: an actor's next message, a step of
// the log, bytes that arrive on a connection, a timer that is due. World.Step lets one
// of them happen, chosen by the seed, and waits until every goroutine of the SDK and
// of the transports is idle again (testing/synctest, in whose bubble a World lives).
// Time stands still meanwhile; only Advance moves it, for nodes and clients each by
// the rate of their own clock.
//
// What goroutines do within one step must come out the same in whatever order they
// run. That is why replies reach a client one at a time, why random numbers of clients
// depend on the step and not on who draws first, and why callbacks of the workload only
// take notes.
//
// # Scripts
//
// What befalls a cluster is a script: lines of verbs (see Verbs) that start and crash
// nodes, let clients work, break things and expect results. Generate makes one from a
// seed, testdata holds those written by hand, and Shrink makes a failing one short.
//
// # What is checked
//
// After every step: replicas agree (truth.go), leases keep their promises (leases.go),
// holders are warned in time, watches are gap-free (watches.go). At the end of a run,
// after all faults are mended: acknowledged writes are there once, histories are
// linearizable (history.go), everything comes to rest, and nothing is left behind.
package sim
