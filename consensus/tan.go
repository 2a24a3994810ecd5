package consensus

import (
	"sync"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/plugin/tan"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// quietTan makes Tan logs that do not write when there is nothing to write, and that do
// not read from the disk, or not much at a time, for followers that are behind.
type quietTan struct {
	made func(*recentLog) // may be nil
}

func (quietTan) Name() string { return tan.Factory.Name() }

func (q quietTan) Create(cfg config.NodeHostConfig, cb config.LogDBCallback, dirs, wals []string) (raftio.ILogDB, error) {
	db, err := tan.Factory.Create(cfg, cb, dirs, wals)
	if err != nil {
		return nil, err
	}
	l := newRecentLog(newQuietLog(db))
	if q.made != nil {
		q.made(l)
	}
	return l, nil
}

// quietLog keeps Tan from two needless writes.
//
// Dragonboat leaves an update's State empty when it has not changed. Tan takes the
// empty state for a changed one: it writes a record of nothing, and syncs, since
// the term seems to have become 0; and the next real state, which may only have a
// higher commit index and need no sync, looks like a change of term again. So an
// update that holds nothing is skipped, and one that holds entries only is given
// the state saved last, which is what its emptiness means.
type quietLog struct {
	raftio.ILogDB

	mu    sync.Mutex
	saved map[raftio.NodeInfo]raftpb.State
}

func newQuietLog(db raftio.ILogDB) *quietLog {
	return &quietLog{ILogDB: db, saved: map[raftio.NodeInfo]raftpb.State{}}
}

// SaveRaftState implements raftio.ILogDB. It may change updates' State.
func (q *quietLog) SaveRaftState(updates []raftpb.Update, workerID uint64) error {
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
	return u, true
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
	delete(q.saved, raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID})
}
