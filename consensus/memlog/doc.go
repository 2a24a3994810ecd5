// Package memlog is the replicated log in memory, behind the ports of package
// consensus.
//
// Cluster is a Raft cluster for simulation: elections with pre-vote and quorum
// check, replication, read barriers, snapshots, membership changes, leadership
// transfer, over a network and disks that fail as told. It has no goroutines, no
// clock and no randomness of its own: the caller hands in a seeded source, moves
// time and lets one thing happen after the other, so that a seed replays a run
// exactly. Every callback, Apply and listener call comes from inside Step, Tick,
// Advance or Start; a call on a port only enqueues, or refuses at once. All of it
// belongs to one goroutine.
//
// # Verbs
//
// Life:
//
//	New(config, rng)            a cluster of config.Replicas, none started
//	Start(id, applier, l)       boots or restarts a replica; returns its Log
//	Join(id, applier, l)        boots a replica that AddReplica or AddNonVoting named
//	Crash(id)                   power loss: what was not synced is gone, nobody is told
//	Tear(id)                    power loss in the middle of a sync: some of it is there
//	replica.Close()             an orderly stop: waiting callers are told unknown
//
// Progress:
//
//	Step()                      one random enabled thing happens: a message arrives, a
//	                            sync ends, a batch is applied, a listener is told
//	Settle()                    Step until nothing is enabled; time stands still
//	Tick()                      one tick of time for everybody
//	Advance(n)                  n times Tick and Settle
//	Until(limit, cond)          Advance(1) until cond, at most limit ticks
//
// Faults of the network: Cut(from, to) one way, Isolate(id), Partition(groups...),
// Heal(), and SetNetwork for loss, delay, doubling and overtaking on all links. Without
// the last two a link keeps its order and doubles nothing, as dragonboat's connections
// do; a lost message is not sent again.
//
// Faults of a node: StallDisk and ResumeDisk (a replica waiting for a sync handles
// nothing, as dragonboat's step worker; committed entries go on being applied),
// FillDisk and FreeDisk (the replica stops by itself at its next sync; Failed),
// Pause and Resume (SIGSTOP), HoldApply and ReleaseApply (a leader that has not
// applied; a lagging follower).
//
// Answers: Answer(id, kinds...) decides about the next proposals at a replica:
// Refused and Dropped are not applied, Lost and Forgotten both end as unknown at
// their deadline, but a Forgotten one is applied. The same ends come about by
// themselves from the faults above.
//
// Upkeep: Snapshot(id) freezes now and saves later, beside further applying;
// replica.RequestSnapshot does both at once. A replica that is too far behind is
// sent a snapshot. Elect(id) makes a replica stand for election now.
//
// Looking: Leader(), Members(id), Replica(id), Now(), and Check(), which panics if two replicas
// disagree about a committed entry or a term has two leaders. It runs by itself
// after every step.
//
// # Real actors above it
//
// Apply is called inside Step and must have set its results when it returns. Where
// the applier is an actor, hand in an Applier that enqueues the batch and then
// lets the simulated dispatcher run that actor until it has answered.
package memlog
