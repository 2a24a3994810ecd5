package consensus

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// disk is what a log must give back.
type disk struct {
	state   raftpb.State
	terms   []uint64 // of the entries, from index 1
	payload []string
}

func (d disk) clone() disk {
	d.terms = append([]uint64(nil), d.terms...)
	d.payload = append([]string(nil), d.payload...)
	return d
}

// next makes the update that a replica in state d might have to save, as
// dragonboat makes them: State is empty when it did not change.
func (d *disk) next(rng *rand.Rand) raftpb.Update {
	before := d.state
	u := raftpb.Update{ShardID: shardID, ReplicaID: 1}
	switch rng.IntN(6) {
	case 0: // nothing but messages
	case 1: // a higher term
		d.state.Term++
		d.state.Vote = rng.Uint64N(3)
	case 2: // a vote in this term
		if d.state.Vote == 0 {
			d.state.Vote = 1 + rng.Uint64N(3)
		}
	case 3: // a commit
		if last := uint64(len(d.terms)); d.state.Commit < last {
			d.state.Commit += 1 + rng.Uint64N(last-d.state.Commit)
		}
	default: // entries, perhaps over others that were not committed
		if d.state.Term == 0 {
			d.state.Term = 1
		}
		from := uint64(len(d.terms))
		if rng.IntN(4) == 0 {
			from = d.state.Commit + rng.Uint64N(from-d.state.Commit+1)
		}
		d.terms, d.payload = d.terms[:from], d.payload[:from]
		for range 1 + rng.IntN(3) {
			p := fmt.Sprint("p", rng.Uint32())
			d.terms = append(d.terms, d.state.Term)
			d.payload = append(d.payload, p)
			u.EntriesToSave = append(u.EntriesToSave, raftpb.Entry{
				Index: uint64(len(d.terms)), Term: d.state.Term, Cmd: []byte(p),
			})
		}
		if rng.IntN(2) == 0 {
			d.state.Commit = uint64(len(d.terms))
		}
	}
	if !raftpb.IsStateEqual(before, d.state) {
		u.State = d.state
	}
	return u
}

// read reads back what a log holds.
func read(db raftio.ILogDB) (disk, error) {
	rs, err := db.ReadRaftState(shardID, 1, 0)
	if errors.Is(err, raftio.ErrNoSavedLog) {
		return disk{}, nil
	}
	if err != nil {
		return disk{}, err
	}
	d := disk{state: rs.State}
	if rs.EntryCount == 0 {
		return d, nil
	}
	entries, _, err := db.IterateEntries(nil, 0, shardID, 1, 1, rs.FirstIndex+rs.EntryCount, 0)
	if err != nil {
		return disk{}, err
	}
	for _, e := range entries {
		d.terms = append(d.terms, e.Term)
		d.payload = append(d.payload, string(e.Cmd))
	}
	return d, nil
}

// same compares all that must survive: the commit index may be older.
func (d disk) same(want disk) bool {
	return d.state.Term == want.state.Term && d.state.Vote == want.state.Vote && d.state.Commit <= want.state.Commit &&
		fmt.Sprint(d.terms, d.payload) == fmt.Sprint(want.terms, want.payload)
}

// crashLog saves random updates until a sync crashes, reads back, and says what
// is wrong.
func crashLog(seed uint64, wrap func(raftio.ILogDB) raftio.ILogDB) (err error) {
	defer func() {
		if r := recover(); r != nil { // Tan panics about gaps
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 3))
	fs := newCrashFS(0)
	logDB := config.GetTinyMemLogDBConfig()
	logDB.Shards, logDB.KVWriteBufferSize = 1, 4<<10
	open := func() (raftio.ILogDB, error) {
		return logMaker{wrap}.Create(config.NodeHostConfig{Expert: config.ExpertConfig{FS: fs, LogDB: logDB}}, nil, []string{"/log"}, []string{"/log"})
	}
	if err := fs.MkdirAll("/log", 0o755); err != nil {
		return err
	}
	if root, err := fs.MemFS.OpenDir("/"); err != nil {
		return err
	} else if err := root.Sync(); err != nil {
		return err
	}
	var now, before disk
	for boot := range 3 {
		db, err := open()
		if err != nil {
			return fmt.Errorf("boot %d: %w", boot, err)
		}
		got, err := read(db)
		if err != nil {
			return fmt.Errorf("boot %d: %w", boot, err)
		}
		if !got.same(now) && !got.same(before) {
			return fmt.Errorf("boot %d reads %+v, saved was %+v, or %+v before the last update", boot, got, now, before)
		}
		now = got
		if boot > 0 {
			now.state.Commit = got.state.Commit // dragonboat goes on from what it reads
		}
		fs.at = fs.syncs.Load() + 1 + rng.Int64N(12)
		for range 40 {
			before = now.clone()
			if err := db.SaveRaftState([]raftpb.Update{now.next(rng)}, 1); err != nil {
				return err
			}
			if fs.crashed.Load() {
				break // either is right
			}
			before = now.clone()
		}
		if err := db.Close(); err != nil {
			return err
		}
		fs.recover()
	}
	return nil
}

func TestQuietLogKeepsWhatRaftNeeds(t *testing.T) {
	for seed := range uint64(300) {
		if err := crashLog(seed, func(db raftio.ILogDB) raftio.ILogDB { return newRecentLog(newQuietLog(db)) }); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// Wrappers that skip too much, or repeat the wrong state, must be found out.
func TestQuietLogTestFindsDefects(t *testing.T) {
	for name, save := range map[string]func(q *quietLog, u raftpb.Update) (raftpb.Update, bool){
		"skips votes": func(q *quietLog, u raftpb.Update) (raftpb.Update, bool) {
			kept, needed := q.reduce(u)
			return kept, needed && (len(u.EntriesToSave) > 0 || u.Vote == 0)
		},
		"repeats an old state": func(q *quietLog, u raftpb.Update) (raftpb.Update, bool) {
			kept, needed := q.reduce(u)
			if raftpb.IsEmptyState(u.State) && needed && kept.Term > 1 {
				kept.Term--
			}
			return kept, needed
		},
		"skips entries": func(q *quietLog, u raftpb.Update) (raftpb.Update, bool) {
			kept, needed := q.reduce(u)
			return kept, needed && !raftpb.IsEmptyState(u.State)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(300) {
				if crashLog(seed, func(db raftio.ILogDB) raftio.ILogDB { return &wrongLog{newQuietLog(db), save} }) != nil {
					return
				}
			}
			t.Fatal("300 seeds did not find it")
		})
	}
}

type wrongLog struct {
	*quietLog
	save func(*quietLog, raftpb.Update) (raftpb.Update, bool)
}

func (w *wrongLog) SaveRaftState(updates []raftpb.Update, workerID uint64) error {
	u, needed := w.save(w.quietLog, updates[0])
	if !needed {
		return nil
	}
	return w.ILogDB.SaveRaftState([]raftpb.Update{u}, workerID)
}

// Syncs are what the wrapper saves.
func TestQuietLogSyncsOnceAWrite(t *testing.T) {
	const writes = 30
	syncs := map[string]int64{}
	for name, maker := range map[string]config.LogDBFactory{"plain": logMaker{}, "quiet": quietTan{}} {
		fs := newCrashFS(0)
		if _, _, err := run(t, fs, maker, loopback(t), "a", writes); err != nil {
			t.Fatal(err)
		}
		base := newCrashFS(0)
		if _, _, err := run(t, base, maker, loopback(t), "a", 0); err != nil {
			t.Fatal(err)
		}
		syncs[name] = fs.syncs.Load() - base.syncs.Load()
	}
	t.Logf("syncs for %d writes and a snapshot: %v", writes, syncs)
	if syncs["quiet"] >= syncs["plain"] {
		t.Fatalf("the wrapper saves nothing: %v", syncs)
	}
}
