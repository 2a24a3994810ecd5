package consensus

import (
	"testing"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// writes records what reaches the log under a quietLog.
type writes struct {
	raftio.ILogDB
	saved     []raftpb.Update
	snapshots int // of saved, how many came before the first snapshot; -1: there was none
	closed    bool
}

func (w *writes) SaveRaftState(updates []raftpb.Update, _ uint64) error {
	w.saved = append(w.saved, updates...)
	return nil
}

func (w *writes) SaveSnapshots([]raftpb.Update) error {
	w.snapshots = len(w.saved)
	return nil
}

func (w *writes) Close() error {
	w.closed = true
	return nil
}

// begun returns a log that has an entry at term 2, committed up to 1.
func begun(t *testing.T) (*writes, *quietLog, func(raftpb.Update)) {
	w := &writes{snapshots: -1}
	q := newQuietLog(w)
	save := func(u raftpb.Update) {
		t.Helper()
		u.ShardID, u.ReplicaID = shardID, 1
		if err := q.SaveRaftState([]raftpb.Update{u}, 1); err != nil {
			t.Fatal(err)
		}
	}
	save(raftpb.Update{State: raftpb.State{Term: 2, Vote: 1, Commit: 1}, EntriesToSave: []raftpb.Entry{{Index: 2, Term: 2}}})
	return w, q, save
}

// A commit index by itself is written with the entries after it.
func TestCommitWaitsForEntries(t *testing.T) {
	w, _, save := begun(t)
	save(raftpb.Update{State: raftpb.State{Term: 2, Vote: 1, Commit: 2}})
	if len(w.saved) != 1 {
		t.Fatalf("%d writes, want 1", len(w.saved))
	}
	save(raftpb.Update{EntriesToSave: []raftpb.Entry{{Index: 3, Term: 2}}})
	if len(w.saved) != 2 || w.saved[1].Commit != 2 || w.saved[1].Term != 2 || w.saved[1].Vote != 1 {
		t.Fatalf("written: %+v", w.saved)
	}
}

// A term or a vote never waits, and takes what waits along.
func TestVoteDoesNotWait(t *testing.T) {
	w, q, save := begun(t)
	save(raftpb.Update{State: raftpb.State{Term: 2, Vote: 1, Commit: 2}})
	save(raftpb.Update{State: raftpb.State{Term: 3, Vote: 2, Commit: 2}})
	if len(w.saved) != 2 || w.saved[1].Term != 3 || w.saved[1].Vote != 2 || w.saved[1].Commit != 2 {
		t.Fatalf("written: %+v", w.saved)
	}
	if err := q.SaveSnapshots(nil); err != nil || len(w.saved) != 2 {
		t.Fatalf("written again: %+v, %v", w.saved, err)
	}
}

// Dragonboat panics at a restart when a snapshot is newer than what is known to be
// committed.
func TestCommitIsWrittenBeforeSnapshot(t *testing.T) {
	w, q, save := begun(t)
	save(raftpb.Update{State: raftpb.State{Term: 2, Vote: 1, Commit: 2}})
	if err := q.SaveSnapshots(nil); err != nil {
		t.Fatal(err)
	}
	if w.snapshots != 2 || w.saved[1].Commit != 2 || w.saved[1].ShardID != shardID || w.saved[1].ReplicaID != 1 {
		t.Fatalf("written before the snapshot: %+v", w.saved)
	}
}

func TestCommitIsWrittenAtClose(t *testing.T) {
	w, q, save := begun(t)
	save(raftpb.Update{State: raftpb.State{Term: 2, Vote: 1, Commit: 2}})
	if err := q.Close(); err != nil || !w.closed {
		t.Fatalf("closed %v, %v", w.closed, err)
	}
	if len(w.saved) != 2 || w.saved[1].Commit != 2 {
		t.Fatalf("written: %+v", w.saved)
	}
}
