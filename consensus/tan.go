package consensus

import (
	"errors"
	"sync"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/plugin/tan"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// quietTan makes Tan logs that do not write when there is nothing to write, and that do
// not read from the disk, or not much at a time, for followers that are behind.
type quietTan struct{}

func (quietTan) Name() string { return tan.Factory.Name() }

func (quietTan) Create(cfg config.NodeHostConfig, cb config.LogDBCallback, dirs, wals []string) (raftio.ILogDB, error) {
	db, err := tan.Factory.Create(cfg, cb, dirs, wals)
	if err != nil {
		return nil, err
	}
	return newRecentLog(newQuietLog(db)), nil
}

// quietLog keeps Tan from two needless writes.
//
// Dragonboat leaves an update's State empty when it has not changed. Tan takes the
// empty state for a changed one: it writes a record of nothing, and syncs, since
// the term seems to have become 0; and the next real state, which may only have a
// higher commit index and need no sync, looks like a change of term again. So an
// update that holds nothing is skipped, and one that holds entries only is given
// the state saved last, which is what its emptiness means.
//
// A state that is new in its commit index alone waits for the entries that are saved
// next: nothing is acknowledged by it, Raft finds it out again, and it would be a second
// write for each. It does not wait behind a snapshot, of which dragonboat takes for
// granted that all in it is known to be committed, nor for a log that is closed.
type quietLog struct {
	raftio.ILogDB

	write sync.Mutex // what is saved first is written first
	mu    sync.Mutex
	saved map[raftio.NodeInfo]raftpb.State
	due   map[raftio.NodeInfo]bool // of saved, what is not written yet
}

func newQuietLog(db raftio.ILogDB) *quietLog {
	return &quietLog{ILogDB: db, saved: map[raftio.NodeInfo]raftpb.State{}, due: map[raftio.NodeInfo]bool{}}
}

// SaveRaftState implements raftio.ILogDB. It may change updates' State.
func (q *quietLog) SaveRaftState(updates []raftpb.Update, workerID uint64) error {
	q.write.Lock()
	defer q.write.Unlock()
	kept := updates[:0:0]
	q.mu.Lock()
	for i := range updates {
		if u, needed := q.reduce(updates[i]); needed {
			kept = append(kept, u)
		}
	}
	q.mu.Unlock()
	if len(kept) == 0 {
		return nil
	}
	return q.ILogDB.SaveRaftState(kept, workerID)
}

func (q *quietLog) reduce(u raftpb.Update) (raftpb.Update, bool) {
	node := raftio.NodeInfo{ShardID: u.ShardID, ReplicaID: u.ReplicaID}
	last := q.saved[node]
	empty := raftpb.IsEmptyState(u.State)
	if len(u.EntriesToSave) == 0 && raftpb.IsEmptySnapshot(u.Snapshot) &&
		(empty || raftpb.IsStateEqual(u.State, last)) {
		return u, false
	}
	if empty {
		u.State = last // empty too as long as nothing was saved or read
	} else {
		q.saved[node] = u.State
	}
	later := len(u.EntriesToSave) == 0 && raftpb.IsEmptySnapshot(u.Snapshot) && u.State.Term == last.Term && u.State.Vote == last.Vote
	q.due[node] = later
	return u, !later
}

// settle writes the states that wait.
func (q *quietLog) settle() error {
	q.write.Lock()
	defer q.write.Unlock()
	q.mu.Lock()
	var updates []raftpb.Update
	for node, due := range q.due {
		if due {
			updates = append(updates, raftpb.Update{ShardID: node.ShardID, ReplicaID: node.ReplicaID, State: q.saved[node]})
		}
	}
	clear(q.due)
	q.mu.Unlock()
	if len(updates) == 0 {
		return nil
	}
	return q.ILogDB.SaveRaftState(updates, stepWorker)
}

// stepWorker is the number of the one worker that saves.
const stepWorker = 1

// SaveSnapshots implements raftio.ILogDB.
func (q *quietLog) SaveSnapshots(updates []raftpb.Update) error {
	if err := q.settle(); err != nil {
		return err
	}
	return q.ILogDB.SaveSnapshots(updates)
}

// Close implements raftio.ILogDB.
func (q *quietLog) Close() error {
	return errors.Join(q.settle(), q.ILogDB.Close())
}

// ReadRaftState implements raftio.ILogDB. What a restarted replica reads is what
// was saved last.
func (q *quietLog) ReadRaftState(shardID, replicaID, lastIndex uint64) (raftio.RaftState, error) {
	rs, err := q.ILogDB.ReadRaftState(shardID, replicaID, lastIndex)
	if err == nil {
		q.mu.Lock()
		q.saved[raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID}] = rs.State
		q.mu.Unlock()
	}
	return rs, err
}

// RemoveNodeData implements raftio.ILogDB.
func (q *quietLog) RemoveNodeData(shardID, replicaID uint64) error {
	q.forget(shardID, replicaID)
	return q.ILogDB.RemoveNodeData(shardID, replicaID)
}

// ImportSnapshot implements raftio.ILogDB. It rewrites the state behind our back.
func (q *quietLog) ImportSnapshot(snapshot raftpb.Snapshot, replicaID uint64) error {
	q.forget(snapshot.ShardID, replicaID)
	return q.ILogDB.ImportSnapshot(snapshot, replicaID)
}

func (q *quietLog) forget(shardID, replicaID uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	node := raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID}
	delete(q.saved, node)
	delete(q.due, node)
}
