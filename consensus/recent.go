package consensus

import (
	"math"
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// What a log hands out for one message to a follower at most, and the bytes of the newest
// entries that it keeps in memory for followers that are behind: recentPart of the newest
// snapshot, within bounds. What a follower lacks costs it, and the leader, less than the
// snapshot as long as it is in memory.
const (
	messageEntriesMax = 4096
	messageBytesMax   = 4 << 20
	recentPart        = 12
	recentBytesMin    = 32 << 20
	recentBytesMax    = 128 << 20
	entryOverhead     = 96 // bytes of an entry beside its command
)

// recentLog keeps the newest entries in memory and has the others read elsewhere, in small
// pieces.
//
// Raft reads entries from the log for a follower that is behind the leader's memory, and
// does so on the one goroutine that also sends heartbeats and takes proposals. It asks
// for up to 64 MiB each time it hears of the follower, some 25 times a second; Tan opens
// a file, and reads 32 KiB of it, for every single entry. A follower that was 3,000
// entries behind so kept the leader from doing anything else, and the cluster without a
// leader: each message took longer to read than an election.
type recentLog struct {
	raftio.ILogDB
	ahead *readAhead

	mu       sync.Mutex
	nodes    map[raftio.NodeInfo]*recent
	bytesMax int // that are held of a replica
}

func newRecentLog(db raftio.ILogDB) *recentLog {
	return &recentLog{ILogDB: db, ahead: newReadAhead(db), nodes: map[raftio.NodeInfo]*recent{}, bytesMax: recentBytesMin}
}

// fit takes the size of the newest snapshot.
func (l *recentLog) fit(snapshot int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytesMax = int(max(recentBytesMin, min(snapshot/recentPart, recentBytesMax)))
}

// replicateSize is what Raft asks for at most for a message to a follower: one byte less
// than what it asks for to apply, by which the log tells the two apart.
//
//go:linkname replicateSize github.com/lni/dragonboat/v4/internal/raft.maxEntrySize
var replicateSize uint64

func init() { replicateSize = 64<<20 - 1 }

// recent is the end of a replica's log: entries without a gap.
type recent struct {
	entries []raftpb.Entry
	bytes   int
	full    bool // there were more, and they did not fit in
}

func entryBytes(e *raftpb.Entry) int { return len(e.Cmd) + entryOverhead }

// add takes entries that were saved, and forgets the oldest ones beyond most bytes. They
// replace those that were there from the index of the first on.
func (r *recent) add(saved []raftpb.Entry, most int) {
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
	for r.bytes > most {
		r.bytes -= entryBytes(&r.entries[drop])
		drop++
		r.full = true
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
			l.ahead.forget(node, 0, math.MaxUint64)
		}
		if len(u.EntriesToSave) == 0 {
			continue
		}
		l.ahead.forget(node, u.EntriesToSave[0].Index, math.MaxUint64)
		if l.nodes[node] == nil {
			l.nodes[node] = &recent{}
		}
		l.nodes[node].add(u.EntriesToSave, l.bytesMax)
	}
	return nil
}

// IterateEntries implements raftio.ILogDB. For a message to a follower it returns what is
// in memory, which may be nothing; see replicate.
func (l *recentLog) IterateEntries(ents []raftpb.Entry, size, shardID, replicaID, low, high, maxSize uint64) ([]raftpb.Entry, uint64, error) {
	node := raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID}
	if maxSize == replicateSize {
		return l.replicate(ents, size, node, low, high)
	}
	bytes := maxSize
	if maxSize == 0 { // no limit; it asks for one entry's term
		bytes = math.MaxUint64
	}
	if ents, size, held := l.recent(ents, size, node, low, high, bytes); held {
		return ents, size, nil
	}
	if high == low+1 {
		if e, ok := l.ahead.one(node, low); ok {
			return append(ents, e), size + uint64(e.SizeUpperLimit()), nil
		}
	}
	return l.ILogDB.IterateEntries(ents, size, shardID, replicaID, low, high, maxSize)
}

// recent is read of the entries that are held.
func (l *recentLog) recent(ents []raftpb.Entry, size uint64, node raftio.NodeInfo, low, high, maxSize uint64) ([]raftpb.Entry, uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.nodes[node]
	if r == nil {
		return ents, size, false
	}
	return r.read(ents, size, low, high, maxSize)
}

// replicate reads for one message to a follower, without waiting for the disk. Dragonboat
// takes a size beyond what it asked for as the sign that there is more, and leaves out the
// last entry if there are others. A message without entries does no harm.
func (l *recentLog) replicate(ents []raftpb.Entry, size uint64, node raftio.NodeInfo, low, high uint64) (_ []raftpb.Entry, _ uint64, err error) {
	had := len(ents)
	var held bool
	upTo := min(high, low+messageEntriesMax)
	ents, size, held = l.recent(ents, size, node, low, upTo, messageBytesMax)
	if !held {
		ents, size = l.ahead.take(ents, size, node, low, upTo, high, messageBytesMax)
		if len(ents) == had {
			if ents, size, err = l.ILogDB.IterateEntries(ents, size, node.ShardID, node.ReplicaID, low, low+1, 0); err != nil {
				return ents, size, err
			}
		}
	}
	if low+uint64(len(ents)-had) < high {
		size = max(size, replicateSize+1)
	}
	return ents, size, nil
}

// Close implements raftio.ILogDB.
func (l *recentLog) Close() error {
	l.ahead.close()
	return l.ILogDB.Close()
}

// worth returns how many of a replica's last entries to keep in its log: most of them, or
// those that are held if more did not fit in, but at least one.
func (l *recentLog) worth(node raftio.NodeInfo, most uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.nodes[node]; r != nil && r.full {
		return max(1, min(most, uint64(len(r.entries))))
	}
	return most
}

// RemoveEntriesTo implements raftio.ILogDB.
func (l *recentLog) RemoveEntriesTo(shardID, replicaID, index uint64) error {
	node := raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID}
	l.mu.Lock()
	if r := l.nodes[node]; r != nil {
		r.removeTo(index)
	}
	l.mu.Unlock()
	l.ahead.forget(node, 0, index)
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
	node := raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID}
	l.mu.Lock()
	delete(l.nodes, node)
	l.mu.Unlock()
	l.ahead.forget(node, 0, math.MaxUint64)
}
