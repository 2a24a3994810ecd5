// Package consensus puts one replicated log behind small ports: propose an entry,
// wait for a read barrier, apply what was committed, save and restore. The ports
// have two implementations: Dragonboat in this package, which is what nodes run,
// and package memlog, which runs a whole cluster in memory, step by step, for
// simulation.
//
// The contract in one paragraph. An entry handed to Propose is applied on every
// replica at the same index, or on none; the proposer is told which of the two it
// was, or that nobody knows, and is told exactly once. Entries are applied in
// index order from one goroutine; indexes rise but have gaps, because Raft puts
// entries of its own between ours. A replica that restarts is first restored from
// its last snapshot, if it has one, and is then given every entry after it again.
// Neither terms nor clocks reach the applier.
package consensus

import (
	"context"
	"io"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Entry is one committed entry on its way through Apply.
type Entry struct {
	// Index is the entry's place in the log.
	Index uint64
	// Payload is what was proposed. It belongs to the log: Apply copies what it
	// keeps beyond its return.
	Payload []byte
	// Results is set by Apply and travels to the proposer, if it is on this
	// replica. The log does not look into it.
	Results []*messages.Result
}

// Applier is the state machine under the log. Its calls come from the log's own
// goroutines, never two at once, except that what Freeze returned is saved beside
// later calls. None of them may wait for anything that waits for the log. None of
// them fails: a defect panics, because a wrong replica is worse than a missing one.
type Applier interface {
	// Apply applies entries in order and sets Results in each. Indexes rise over
	// all calls; they have gaps. The slice belongs to the log.
	Apply(entries []Entry)

	// Freeze returns the state as it is now, for saving while Apply goes on. It is
	// O(1): applying stands still meanwhile.
	Freeze() Frozen

	// Restore replaces the state by what a Frozen wrote. index is the highest
	// index that had been given to Apply when it was frozen; 0 if none had. An
	// error means that the stream is damaged; the replica then does not start.
	Restore(index uint64, r io.Reader) error
}

// Frozen is a state at one index.
type Frozen interface {
	// Save writes the state. It is called once, on a goroutine of the log, beside
	// Apply. It may give up when stop is closed. An error abandons this snapshot
	// only: the next one is tried later, and the log is kept until then.
	Save(w io.Writer, stop <-chan struct{}) error
}

// Listener is told about leadership.
type Listener interface {
	// LeaderChanged says who leads, as far as this replica knows: first leader 0
	// when it lost sight of one, then its id. Leading does not mean having
	// applied everything: ask ReadIndex. The call must only enqueue; Raft waits
	// for it.
	LeaderChanged(leaderID, term uint64)
}

// Status is what a replica knows about itself, now. It is for display and for
// hints, not for decisions: all of it may be old by the time it is read.
type Status struct {
	ReplicaID uint64
	// LeaderID is 0 when no leader is known.
	LeaderID uint64
	Term     uint64
	// AppliedIndex is the highest index given to Apply or restored.
	AppliedIndex uint64
	// Proposals and ProposedBytes are in flight from this replica.
	Proposals     int
	ProposedBytes int64
	// Ready is true once this replica had applied everything that was committed
	// when it started.
	Ready bool
}

// Log is one replica of the replicated log. All methods may be called from any
// goroutine. Errors are *messages.Error, and their outcome is what counts: not
// applied means that the entry will never be applied, unknown that it may have
// been or may still be.
type Log interface {
	// Propose asks for payload to be appended and applied. done is called exactly
	// once, on any goroutine, possibly before Propose returns, and must only
	// enqueue: with the results that Apply set when the entry has been applied on
	// this replica, or with an error. The log does not keep payload after Propose
	// has returned.
	//
	// Entries proposed here one after the other keep their order while this replica
	// leads. From a follower, or across a change of leader, a later one may come
	// first, or come alone.
	//
	// Refusals with outcome not applied: overloaded (too many bytes in flight
	// here), too_large, no_leader, not_ready, node_stopping, invalid_argument (a
	// timeout that is not positive). Outcome unknown: timeout, node_stopping.
	Propose(payload []byte, timeout time.Duration, done func(results []*messages.Result, err error))

	// ReadIndex calls done(nil) once everything acknowledged anywhere before the
	// call has been applied on this replica. On an error nothing is known; asking
	// again is always safe. done is called like Propose's.
	ReadIndex(timeout time.Duration, done func(err error))

	// Status does not block.
	Status() Status

	// WaitReady blocks until this replica may serve: it has passed a read barrier
	// since it started, so that replay is over. It returns ctx's end as not_ready.
	WaitReady(ctx context.Context) error

	// RequestSnapshot saves a snapshot now and shortens the log. It blocks until
	// that is done; nil also when there was nothing new to save.
	RequestSnapshot(timeout time.Duration) error

	Members

	// Close stops the replica. Each proposal still waiting is told that its
	// outcome is unknown. After Close has returned no callback, no Apply and no
	// listener call is running or will come. A second Close does nothing.
	Close() error
}

// Members changes who takes part. One change may be under way at a time. Each
// names the Membership.Order it is based on and is refused (not applied) when the
// membership has changed since; order 0 takes whatever it is when the call is made.
type Members interface {
	// Membership asks for the membership as of a read barrier.
	Membership(timeout time.Duration, done func(Membership, error))

	// AddReplica makes replicaID, reachable at address, a voting member, or
	// promotes a non-voting one. The id of a replica that was removed, or whose
	// files were lost, is never used again.
	AddReplica(replicaID uint64, address string, order uint64, timeout time.Duration, done func(error))

	// AddNonVoting adds a member that receives the log and has no vote.
	AddNonVoting(replicaID uint64, address string, order uint64, timeout time.Duration, done func(error))

	// RemoveReplica removes a member for good. Of two voting members only the one
	// that does not lead may be removed: a leader that is gone may be the only one
	// to know that its removal was committed, and the other then needs its vote.
	RemoveReplica(replicaID uint64, order uint64, timeout time.Duration, done func(error))

	// TransferLeader asks the leader to hand over to target. It is best effort:
	// nil means asked, not done. Proposals are dropped while it lasts.
	TransferLeader(target uint64) error
}

// Membership is who takes part, by replica id.
type Membership struct {
	// Order identifies this membership; it changes with each change.
	Order     uint64
	Voting    map[uint64]string
	NonVoting map[uint64]string
	Removed   map[uint64]bool
}
