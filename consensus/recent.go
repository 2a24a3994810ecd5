package consensus

import (
	"math"
	"sync"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// What a log hands out for one message to a follower at most, and the bytes of the
// newest entries that it keeps in memory for followers that are behind.
const (
	readEntriesMax = 512
	readBytesMax   = 4 << 20
	recentBytesMax = 32 << 20
	entryOverhead  = 96 // bytes of an entry beside its command
)

// recentLog keeps the newest entries in memory and reads the others in small pieces.
//
// Raft reads entries from the log for a follower that is behind the leader's memory, and
// does so on the one goroutine that also sends heartbeats and takes proposals. It asks
// for up to 64 MiB each time it hears of the follower, some 25 times a second; Tan opens
// a file, and reads 32 KiB of it, for every single entry. A follower that was 3,000
// entries behind so kept the leader from doing anything else, and the cluster without a
// leader: each message took longer to read than an election.
type recentLog struct {
	raftio.ILogDB

	mu    sync.Mutex
	nodes map[raftio.NodeInfo]*recent
}

func newRecentLog(db raftio.ILogDB) *recentLog {
	return &recentLog{ILogDB: db, nodes: map[raftio.NodeInfo]*recent{}}
}

// recent is the end of a replica's log: entries without a gap.
type recent struct {
	entries []raftpb.Entry
	bytes   int
}

func entryBytes(e *raftpb.Entry) int { return len(e.Cmd) + entryOverhead }

// add takes entries that were saved. They replace those that were there from the index
// of the first on.
func (r *recent) add(saved []raftpb.Entry) {
	first := saved[0].Index
	if n := len(r.entries); n > 0 {
		switch start := r.entries[0].Index; {
		case first <= start || first > start+uint64(n):
			r.cut(0)
		default:
			r.cut(int(first - start))
		}
	}
	r.entries = append(r.entries, saved...)
	for i := range saved {
		r.bytes += entryBytes(&saved[i])
	}
	drop := 0
	for r.bytes > recentBytesMax {
		r.bytes -= entryBytes(&r.entries[drop])
		drop++
	}
	r.dropFirst(drop)
}

// cut keeps the first n entries.
func (r *recent) cut(n int) {
	for i := n; i < len(r.entries); i++ {
		r.bytes -= entryBytes(&r.entries[i])
	}
	clear(r.entries[n:])
	r.entries = r.entries[:n]
}

// dropFirst forgets the first n entries, whose bytes are no longer counted.
func (r *recent) dropFirst(n int) {
	clear(r.entries[:n]) // append moves what is left before long
	r.entries = r.entries[n:]
}

// removeTo forgets the entries up to an index.
func (r *recent) removeTo(index uint64) {
	n := 0
	for ; n < len(r.entries) && r.entries[n].Index <= index; n++ {
		r.bytes -= entryBytes(&r.entries[n])
	}
	r.dropFirst(n)
}

// read appends entries from low on, below high, until they are more than maxSize bytes.
// It reports false when it does not hold the first of them; size is as IterateEntries
// has it.
func (r *recent) read(ents []raftpb.Entry, size, low, high, maxSize uint64) ([]raftpb.Entry, uint64, bool) {
	if len(r.entries) == 0 || low < r.entries[0].Index || low >= r.entries[0].Index+uint64(len(r.entries)) {
		return ents, size, false
	}
	for _, e := range r.entries[low-r.entries[0].Index:] {
		if e.Index >= high {
			break
		}
		ents = append(ents, e)
		if size += uint64(e.SizeUpperLimit()); size > maxSize {
			break
		}
	}
	return ents, size, true
}

// SaveRaftState implements raftio.ILogDB.
func (l *recentLog) SaveRaftState(updates []raftpb.Update, workerID uint64) error {
	if err := l.ILogDB.SaveRaftState(updates, workerID); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range updates {
		u := &updates[i]
		node := raftio.NodeInfo{ShardID: u.ShardID, ReplicaID: u.ReplicaID}
		if !raftpb.IsEmptySnapshot(u.Snapshot) {
			delete(l.nodes, node) // a snapshot that came replaces the log
		}
		if len(u.EntriesToSave) == 0 {
			continue
		}
		if l.nodes[node] == nil {
			l.nodes[node] = &recent{}
		}
		l.nodes[node].add(u.EntriesToSave)
	}
	return nil
}

// IterateEntries implements raftio.ILogDB, with the limits of one message. Dragonboat
// takes a size beyond maxSize as the sign that there is more, and leaves out the last.
func (l *recentLog) IterateEntries(ents []raftpb.Entry, size, shardID, replicaID, low, high, maxSize uint64) ([]raftpb.Entry, uint64, error) {
	upTo, bytes := high, maxSize
	switch {
	case maxSize == 0: // no limit; it asks for one entry's term
		bytes = math.MaxUint64
	case maxSize < math.MaxUint64:
		upTo, bytes = min(high, low+readEntriesMax), min(maxSize, readBytesMax)
	}
	l.mu.Lock()
	held := false
	if r := l.nodes[raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID}]; r != nil {
		ents, size, held = r.read(ents, size, low, upTo, bytes)
	}
	l.mu.Unlock()
	if !held {
		var err error
		if ents, size, err = l.ILogDB.IterateEntries(ents, size, shardID, replicaID, low, upTo, bytes); err != nil {
			return ents, size, err
		}
	}
	if n := len(ents); n > 0 && maxSize > 0 && maxSize < math.MaxUint64 && ents[n-1].Index+1 < high &&
		(size > bytes || ents[n-1].Index+1 == upTo) {
		size = max(size, maxSize+1)
	}
	return ents, size, nil
}

// RemoveEntriesTo implements raftio.ILogDB.
func (l *recentLog) RemoveEntriesTo(shardID, replicaID, index uint64) error {
	l.mu.Lock()
	if r := l.nodes[raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID}]; r != nil {
		r.removeTo(index)
	}
	l.mu.Unlock()
	return l.ILogDB.RemoveEntriesTo(shardID, replicaID, index)
}

// RemoveNodeData implements raftio.ILogDB.
func (l *recentLog) RemoveNodeData(shardID, replicaID uint64) error {
	l.forget(shardID, replicaID)
	return l.ILogDB.RemoveNodeData(shardID, replicaID)
}

// ImportSnapshot implements raftio.ILogDB.
func (l *recentLog) ImportSnapshot(snapshot raftpb.Snapshot, replicaID uint64) error {
	l.forget(snapshot.ShardID, replicaID)
	return l.ILogDB.ImportSnapshot(snapshot, replicaID)
}

func (l *recentLog) forget(shardID, replicaID uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID})
}
