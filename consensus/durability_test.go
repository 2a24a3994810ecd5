package consensus

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/plugin/tan"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/concord-kv/concord/cluster/clustertest/port"
	"github.com/concord-kv/concord/messages"
)

// words is an applier that keeps what it applied.
type words struct {
	mu  sync.Mutex
	all []string
}

func (w *words) Apply(entries []Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range entries {
		w.all = append(w.all, string(entries[i].Payload))
		entries[i].Results = []*messages.Result{{Revision: uint64(len(w.all))}}
	}
}

func (w *words) Freeze() Frozen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return frozenWords(w.all[:len(w.all):len(w.all)])
}

type frozenWords []string

func (f frozenWords) Save(out io.Writer, _ <-chan struct{}) error {
	for _, p := range f {
		if _, err := out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)); err != nil {
			return err
		}
	}
	return nil
}

func (w *words) Restore(_ uint64, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = nil
	for len(data) > 0 {
		n := 4 + int(binary.BigEndian.Uint32(data))
		w.all = append(w.all, string(data[4:n]))
		data = data[n:]
	}
	return nil
}

func (w *words) has() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	has := map[string]bool{}
	for _, p := range w.all {
		has[p] = true
	}
	return has
}

// logMaker makes logs through wrap; nil wraps nothing.
type logMaker struct {
	wrap func(raftio.ILogDB) raftio.ILogDB
}

func (m logMaker) Name() string { return tan.Factory.Name() }

func (m logMaker) Create(cfg config.NodeHostConfig, cb config.LogDBCallback, dirs, wals []string) (raftio.ILogDB, error) {
	db, err := tan.Factory.Create(cfg, cb, dirs, wals)
	if err != nil || m.wrap == nil {
		return db, err
	}
	return m.wrap(db), nil
}

// writeBehind holds updates back while term and vote stay the same, until someone
// reads: a wrapper that skips too much, in a way that only a crash shows.
type writeBehind struct {
	raftio.ILogDB
	mu   sync.Mutex
	last raftpb.State
	held []raftpb.Update
}

func (w *writeBehind) SaveRaftState(updates []raftpb.Update, workerID uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := false
	for _, u := range updates {
		u.EntriesToSave = slices.Clone(u.EntriesToSave)
		w.held = append(w.held, u)
		if !raftpb.IsEmptyState(u.State) {
			changed = changed || u.Term != w.last.Term || u.Vote != w.last.Vote
			w.last = u.State
		}
	}
	if !changed {
		return nil
	}
	return w.write()
}

func (w *writeBehind) write() error {
	held := w.held
	w.held = nil
	for _, u := range held {
		if err := w.ILogDB.SaveRaftState([]raftpb.Update{u}, 1); err != nil {
			return err
		}
	}
	return nil
}

func (w *writeBehind) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.write(); err != nil {
		panic(err)
	}
}

func (w *writeBehind) IterateEntries(ents []raftpb.Entry, size uint64, shardID, replicaID, low, high, maxSize uint64) ([]raftpb.Entry, uint64, error) {
	w.flush()
	return w.ILogDB.IterateEntries(ents, size, shardID, replicaID, low, high, maxSize)
}

func loopback(t testing.TB) string {
	t.Helper()
	a, err := port.Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// run opens a replica on fs, writes, saves a snapshot in the middle and closes it,
// and returns what was acknowledged before fs crashed. A first boot that the crash
// cut short acknowledges nothing.
func run(t *testing.T, fs *crashFS, logs config.LogDBFactory, address, prefix string, count int) (acked []string, w *words, err error) {
	w = &words{}
	log, err := OpenDragonboat(DragonboatConfig{
		Dir: "/data", ReplicaID: 1, RaftAddress: address, FS: fs, logDB: logs, SnapshotKeepEntries: 1,
		Timing: Timing{RTT: time.Millisecond, ElectionTicks: 10, HeartbeatTicks: 1},
	}, w, nil)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := log.WaitReady(ctx); err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var waiting sync.WaitGroup
	for i := range count {
		p := fmt.Sprint(prefix, i)
		waiting.Add(1)
		log.Propose([]byte(p), 20*time.Second, func(_ []*messages.Result, err error) {
			defer waiting.Done()
			mu.Lock()
			defer mu.Unlock()
			if err == nil && !fs.crashed.Load() {
				acked = append(acked, p)
			}
		})
		if i%3 == 2 {
			waiting.Wait() // some alone, some together
		}
		if i == count/2 {
			if err := log.RequestSnapshot(20 * time.Second); err != nil {
				t.Log("snapshot:", err)
			}
		}
	}
	waiting.Wait()
	return acked, w, nil
}

// crashEverywhere crashes two boots in a row at each sync in turn and returns how
// often something acknowledged was lost, and how often a boot after a crash failed.
func crashEverywhere(t *testing.T, logs config.LogDBFactory, stride int64) (crashes, lost, refused int) {
	const writes = 12
	total := func() int64 {
		fs := newCrashFS(0)
		if _, _, err := run(t, fs, logs, loopback(t), "a", writes); err != nil {
			t.Fatal(err)
		}
		return fs.syncs.Load()
	}()
	// From the end, where the most was acknowledged: at total + 1 power is lost
	// only after an orderly close.
	for at := total + 1; at > 0; at -= stride {
		address := loopback(t)
		fs := newCrashFS(at)
		first, _, err := run(t, fs, logs, address, "a", writes)
		if err != nil && !fs.crashed.Load() {
			t.Fatalf("sync %d: %v", at, err)
		}
		fs.recover()
		// The second boot is crashed too, at a sync of its own.
		fs.at = fs.syncs.Load() + 1 + at%13
		second, w, err := run(t, fs, logs, address, "b", writes)
		if err != nil {
			if !fs.crashed.Load() {
				t.Logf("sync %d of %d: the second boot: %v", at, total, err)
				refused++
				continue
			}
		} else if has := w.has(); !hasAll(has, first) {
			t.Logf("sync %d of %d: of %v the second boot has %v", at, total, first, has)
			lost++
			continue
		}
		fs.recover()
		crashes++
		_, w, err = run(t, fs, logs, address, "c", 1)
		if err != nil {
			t.Logf("sync %d of %d: the third boot: %v", at, total, err)
			refused++
			continue
		}
		if has := w.has(); !hasAll(has, first) || !hasAll(has, second) {
			t.Logf("sync %d of %d: of %v and %v the third boot has %v", at, total, first, second, has)
			lost++
		}
	}
	return crashes, lost, refused
}

func hasAll(has map[string]bool, want []string) bool {
	for _, p := range want {
		if !has[p] {
			return false
		}
	}
	return true
}

func TestCrashAtEverySyncLosesNothing(t *testing.T) {
	stride := int64(1)
	if testing.Short() {
		stride = 4
	}
	crashes, lost, refused := crashEverywhere(t, quietTan{}, stride)
	t.Logf("%d crashes, %d lost something, %d boots refused", crashes, lost, refused)
	if lost > 0 || refused > 0 || crashes < 5 {
		t.Fail()
	}
}

// The control: a log that skips too much must be found out.
func TestCrashTestFindsWriteBehind(t *testing.T) {
	_, lost, refused := crashEverywhere(t, logMaker{func(db raftio.ILogDB) raftio.ILogDB { return &writeBehind{ILogDB: db} }}, 3)
	if lost+refused == 0 {
		t.Fatal("a log that writes behind was not found out")
	}
}
