package consensus

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// countedLog counts how many entries are read from the log itself, and at most how many
// at a time.
type countedLog struct {
	raftio.ILogDB

	mu            sync.Mutex
	entries, most int
}

func (c *countedLog) IterateEntries(ents []raftpb.Entry, size, shardID, replicaID, low, high, maxSize uint64) ([]raftpb.Entry, uint64, error) {
	had := len(ents)
	ents, size, err := c.ILogDB.IterateEntries(ents, size, shardID, replicaID, low, high, maxSize)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries += len(ents) - had
	c.most = max(c.most, len(ents)-had)
	return ents, size, err
}

func openCounted(t *testing.T) *countedLog {
	t.Helper()
	fs := newCrashFS(0)
	if err := fs.MkdirAll("/log", 0o755); err != nil {
		t.Fatal(err)
	}
	logDB := config.GetTinyMemLogDBConfig()
	logDB.Shards, logDB.KVWriteBufferSize = 1, 4<<10
	db, err := logMaker{}.Create(config.NodeHostConfig{Expert: config.ExpertConfig{FS: fs, LogDB: logDB}}, nil, []string{"/log"}, []string{"/log"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &countedLog{ILogDB: newQuietLog(db)}
}

// TestRecentLogReadsTheSame: whatever was saved, over what it replaced, with or without
// compaction, a read gives a part of what the log gives, from the first entry on, and is
// short only where it says that there is more.
func TestRecentLogReadsTheSame(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		plain := openCounted(t)
		db := newRecentLog(plain)
		t.Cleanup(db.ahead.close)
		var d disk
		first := uint64(1)
		for step := range 60 {
			u := d.next(rng)
			for i := range u.EntriesToSave {
				u.EntriesToSave[i].Cmd = append(u.EntriesToSave[i].Cmd, make([]byte, rng.IntN(300))...)
			}
			if err := db.SaveRaftState([]raftpb.Update{u}, 1); err != nil {
				t.Fatal(err)
			}
			if d.state.Commit > first && rng.IntN(20) == 0 {
				first += rng.Uint64N(d.state.Commit - first)
				if err := db.RemoveEntriesTo(shardID, 1, first-1); err != nil {
					t.Fatal(err)
				}
			}
			last := uint64(len(d.terms))
			if last < first {
				continue
			}
			low := first + rng.Uint64N(last-first+1)
			high := low + 1 + rng.Uint64N(last-low+1)
			maxSize := []uint64{0, 1, 500, 2_000, math.MaxUint64}[rng.IntN(5)]
			got, size, err := db.IterateEntries(nil, 0, shardID, 1, low, high, maxSize)
			want, wantSize, wantErr := plain.ILogDB.IterateEntries(nil, 0, shardID, 1, low, high, maxSize)
			if fmt.Sprint(got, size, err) != fmt.Sprint(want, wantSize, wantErr) {
				t.Fatalf("seed %d, step %d: [%d, %d) up to %d bytes: %v, %d, %v; the log has %v, %d, %v",
					seed, step, low, high, maxSize, got, size, err, want, wantSize, wantErr)
			}
		}
	}
}

// TestFollowerBehindIsReadFromMemory: what a follower needs that is thousands of entries
// behind comes from memory; what is no longer there comes in pieces of a bounded size.
func TestFollowerBehindIsReadFromMemory(t *testing.T) {
	plain := openCounted(t)
	db := newRecentLog(plain)
	t.Cleanup(db.ahead.close)
	node := raftio.NodeInfo{ShardID: shardID, ReplicaID: 1}
	const entries, bytes = 3_000, 16 << 10 // 48 MiB: the first third is no longer held
	for i := uint64(1); i <= entries; i++ {
		u := raftpb.Update{ShardID: shardID, ReplicaID: 1, State: raftpb.State{Term: 1, Commit: i - 1},
			EntriesToSave: []raftpb.Entry{{Index: i, Term: 1, Cmd: make([]byte, bytes)}}}
		if err := db.SaveRaftState([]raftpb.Update{u}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if held := db.nodes[node].bytes; held > recentBytesMin {
		t.Errorf("it holds %d bytes, at most %d", held, recentBytesMin)
	}
	messages := 0
	for next := uint64(1); next <= entries; messages++ {
		ents, size, err := db.IterateEntries(nil, 0, shardID, 1, next, entries+1, replicateSize)
		if err != nil || len(ents) == 0 || ents[0].Index != next {
			t.Fatalf("%d entries from %d on, %v", len(ents), next, err)
		}
		if n := ents[len(ents)-1].Index; n < entries && size <= replicateSize {
			t.Fatalf("%d entries from %d on, and it does not say that there is more", len(ents), next)
		} else if n < entries && len(ents) > 1 {
			ents = ents[:len(ents)-1] // as dragonboat does
		}
		next += uint64(len(ents))
		if next < db.nodes[node].entries[0].Index { // the answer takes longer than to read on
			until(t, "what is asked for next", func() bool { _, ok := db.ahead.one(node, next); return ok })
		}
	}
	plain.mu.Lock()
	if plain.entries > entries/2 || plain.most > pieceEntriesMax {
		t.Errorf("%d entries were read from the log, up to %d at a time", plain.entries, plain.most)
	}
	plain.mu.Unlock()
	if least := entries*bytes/messageBytesMax + entries*bytes/3/pieceBytesMax; messages > 2*least {
		t.Errorf("%d messages, %d would do", messages, least)
	}
	if db.nodes[node] == nil {
		t.Error("it holds nothing")
	}
	if err := db.RemoveEntriesTo(shardID, 1, entries); err != nil {
		t.Fatal(err)
	}
	if r := db.nodes[node]; r.bytes != 0 || len(r.entries) != 0 {
		t.Errorf("%d bytes of %d entries that were compacted are held", r.bytes, len(r.entries))
	}
}
