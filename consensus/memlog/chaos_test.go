package memlog_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/consensus/memlog"
	"github.com/concord-kv/concord/messages"
)

// journal is an applier that keeps what it applied.
type journal struct {
	t       testing.TB
	name    string
	trace   io.Writer
	index   uint64
	all     []string
	indexes []uint64
	batches []int
}

func (j *journal) Apply(entries []consensus.Entry) {
	j.batches = append(j.batches, len(entries))
	fmt.Fprintf(j.trace, "%s apply", j.name)
	for i := range entries {
		e := &entries[i]
		if e.Index <= j.index {
			panic(fmt.Sprintf("%s: index %d after %d", j.name, e.Index, j.index))
		}
		j.index = e.Index
		j.all = append(j.all, string(e.Payload))
		j.indexes = append(j.indexes, e.Index)
		e.Results = []*messages.Result{{Revision: uint64(len(j.all))}}
		fmt.Fprintf(j.trace, " %d=%s", e.Index, e.Payload)
	}
	fmt.Fprintln(j.trace)
}

func (j *journal) Freeze() consensus.Frozen {
	return &frozen{all: j.all[:len(j.all):len(j.all)], indexes: j.indexes[:len(j.indexes):len(j.indexes)]}
}

func (j *journal) Restore(index uint64, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	j.all, j.indexes = nil, nil
	for len(data) > 0 {
		j.indexes = append(j.indexes, binary.BigEndian.Uint64(data))
		n := binary.BigEndian.Uint32(data[8:])
		j.all = append(j.all, string(data[12:12+n]))
		data = data[12+n:]
	}
	if len(j.indexes) > 0 && j.indexes[len(j.indexes)-1] != index {
		return fmt.Errorf("restored at %d, the state is of %d", index, j.indexes[len(j.indexes)-1])
	}
	j.index = index
	fmt.Fprintf(j.trace, "%s restore %d\n", j.name, index)
	return nil
}

func (j *journal) LeaderChanged(leaderID, term uint64) {
	fmt.Fprintf(j.trace, "%s leader %d term %d\n", j.name, leaderID, term)
}

type frozen struct {
	all     []string
	indexes []uint64
}

func (f *frozen) Save(w io.Writer, _ <-chan struct{}) error {
	var b bytes.Buffer
	for i, p := range f.all {
		b.Write(binary.BigEndian.AppendUint64(nil, f.indexes[i]))
		b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		b.WriteString(p)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// world runs a cluster under random faults and keeps the proposers' book.
type world struct {
	t        testing.TB
	rng      *rand.Rand
	c        *memlog.Cluster
	journals map[uint64]*journal
	boots    int
	joined   uint64 // highest id that was booted
	changes  int
	members  []uint64
	trace    strings.Builder
	next     int
	fate     map[string]string // by payload: "", acked, not_applied, unknown
	ids      uint64            // 1..ids were members, or were asked to become some
	acked    []string
}

func newWorld(t testing.TB, seed uint64, cfg memlog.Config) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), journals: map[uint64]*journal{}, fate: map[string]string{}, ids: 3}
	w.c = memlog.New(cfg, rand.New(rand.NewPCG(seed, 8)))
	return w
}

func (w *world) start(id uint64) {
	w.boots++
	j := &journal{t: w.t, name: fmt.Sprintf("r%d.%d", id, w.boots), trace: &w.trace}
	w.journals[id] = j
	if id > 3 && w.joined < id {
		w.joined = id
		w.c.Join(id, j, j)
		return
	}
	w.c.Start(id, j, j)
}

// change asks for a random change of the membership.
func (w *world) change(id uint64) {
	r := w.replica(id)
	if r == nil {
		return
	}
	done := func(err error) {
		fmt.Fprintf(&w.trace, "change %v\n", err)
		if err == nil {
			w.changes++
		}
	}
	switch k := w.rng.IntN(4); {
	case k < 2 && w.ids < 6 && w.joined >= w.ids || w.ids == 3:
		w.ids++
		add := r.AddReplica
		if k == 1 {
			add = r.AddNonVoting
		}
		add(w.ids, fmt.Sprint("memory:", w.ids), 0, time.Second, done)
	case k == 2:
		r.AddReplica(w.any(), "memory", 0, time.Second, done)
	default:
		r.Membership(time.Second, func(m consensus.Membership, err error) {
			// A removed one of two may take with it what the other has to know.
			if err == nil && len(m.Voting) > 2 {
				r.RemoveReplica(w.any(), m.Order, time.Second, done)
			}
		})
	}
}

func (w *world) any() uint64 { return 1 + w.rng.Uint64N(w.ids) }

// replica returns a running replica, nil if it is down or was not started yet.
func (w *world) replica(id uint64) *memlog.Replica {
	if w.journals[id] == nil {
		return nil
	}
	return w.c.Replica(id)
}

func (w *world) propose(id uint64) {
	r := w.replica(id)
	if r == nil {
		return
	}
	w.next++
	p := fmt.Sprint("p", w.next)
	w.fate[p] = "unknown" // also when its replica crashes before an answer
	told := false
	r.Propose([]byte(p), time.Duration(1+w.rng.IntN(60))*20*time.Millisecond, func(results []*messages.Result, err error) {
		if told {
			w.t.Fatalf("%s was answered twice", p)
		}
		told = true
		if err == nil {
			j := w.journals[id]
			if n := results[0].Revision; j.all[n-1] != p {
				w.t.Fatalf("%s was answered with the result of %s", p, j.all[n-1])
			}
			w.fate[p] = "acked"
			w.acked = append(w.acked, p)
		} else {
			w.fate[p] = messages.OutcomeName(messages.OutcomeOf(err))
		}
		fmt.Fprintf(&w.trace, "%s %s %v\n", p, w.fate[p], err)
	})
}

// read asks for a barrier and checks what it promises.
func (w *world) read(id uint64) {
	r := w.replica(id)
	if r == nil {
		return
	}
	before := len(w.acked)
	j := w.journals[id]
	r.ReadIndex(time.Second, func(err error) {
		if err != nil {
			return
		}
		have := map[string]bool{}
		for _, p := range j.all {
			have[p] = true
		}
		for _, p := range w.acked[:before] {
			if !have[p] {
				w.t.Fatalf("replica %d passed a barrier without %s, acknowledged before", id, p)
			}
		}
	})
}

func (w *world) fault() {
	id, other := w.any(), w.any()
	if w.journals[id] == nil {
		w.start(id)
		return
	}
	switch w.rng.IntN(20) {
	case 16, 17:
		w.change(id)
	case 18:
		w.c.FillDisk(id)
	case 19:
		w.c.FreeDisk(id)
	case 0:
		if w.rng.IntN(2) == 0 {
			w.c.Crash(id)
		} else {
			w.c.Tear(id)
		}
	case 1, 2, 3:
		if w.c.Replica(id) == nil {
			w.start(id)
		}
	case 4:
		w.c.Isolate(id)
	case 5:
		w.c.Cut(id, other)
	case 6, 7:
		w.c.Heal()
	case 8:
		w.c.StallDisk(id)
	case 9:
		w.c.ResumeDisk(id)
	case 10:
		w.c.HoldApply(id)
	case 11:
		w.c.ReleaseApply(id)
	case 12:
		w.c.Snapshot(id)
	case 13:
		w.c.Elect(id)
	case 14:
		if r := w.replica(id); r != nil {
			_ = r.TransferLeader(other)
		}
	case 15:
		if w.rng.IntN(2) == 0 {
			w.c.Pause(id)
		} else {
			w.c.Resume(id)
		}
	}
}

func (w *world) heal() {
	w.c.Heal()
	for id := uint64(1); id <= w.ids; id++ {
		if w.journals[id] != nil {
			w.c.FreeDisk(id)
		}
		if w.replica(id) == nil {
			w.start(id)
		}
		w.c.ResumeDisk(id)
		w.c.ReleaseApply(id)
		w.c.Resume(id)
	}
}

func (w *world) run(steps int) {
	for id := uint64(1); id <= 3; id++ {
		w.start(id)
	}
	w.c.Advance(40)
	for range steps {
		switch k := w.rng.IntN(100); {
		case k < 3:
			w.fault()
		case k < 4 && w.rng.IntN(2) == 0:
			w.heal()
		case k < 20:
			w.propose(w.any())
		case k < 26:
			w.read(w.any())
		case k < 50:
			w.c.Tick()
		default:
			for range w.rng.IntN(30) {
				w.c.Step()
			}
		}
	}
	w.heal()
	if !w.c.Until(2000, w.together) {
		w.t.Fatalf("the healed cluster does not come together: %s", w.c)
	}
}

// together says whether all members are ready with the same state.
func (w *world) together() bool {
	leader := w.c.Leader()
	if leader == 0 {
		return false
	}
	voting, nonVoting := w.c.Members(leader)
	w.members = append(voting, nonVoting...)
	for _, id := range w.members {
		if w.c.Replica(id).WaitReady(w.t.Context()) != nil || len(w.journals[id].all) != len(w.journals[leader].all) {
			return false
		}
	}
	return len(w.members) > 0
}

// verify holds the book against what was applied.
func (w *world) verify() {
	applied := map[string]int{}
	first := w.journals[w.members[0]].all
	for _, p := range first {
		applied[p]++
	}
	for id := uint64(1); id <= w.joined || id <= 3; id++ {
		for i, p := range w.journals[id].all { // a removed replica has a part
			if p != first[i] {
				w.t.Fatalf("entry %d is %s at replica %d and %s at replica %d", i, first[i], w.members[0], p, id)
			}
		}
	}
	for p, fate := range w.fate {
		switch n := applied[p]; {
		case n > 1:
			w.t.Fatalf("%s was applied %d times", p, n)
		case fate == "acked" && n == 0:
			w.t.Fatalf("%s was acknowledged and lost", p)
		case fate == "not_applied" && n == 1:
			w.t.Fatalf("%s was answered not_applied and applied", p)
		}
	}
}

func chaosConfig(seed uint64) memlog.Config {
	cfg := memlog.Config{SnapshotKeep: int(seed % 5), ApplyBatchMax: 1 + int(seed%7), AppendEntriesMax: 1 + int(seed%9)}
	switch seed % 5 {
	case 1:
		cfg.Network.Loss = 0.05
	case 2:
		cfg.Network.DelayTicks = 4
	case 3:
		cfg.Network.Duplicate, cfg.Network.Reorder = 0.1, 0.2
	case 4:
		cfg.Network = memlog.Network{Loss: 0.03, Duplicate: 0.1, Reorder: 0.1, DelayTicks: 5}
	}
	return cfg
}

func TestChaos(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 30
	}
	kinds := map[string]int{}
	changes := 0
	for seed := range seeds {
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("replay: seed %d", seed)
				}
				if r := recover(); r != nil {
					t.Fatalf("seed %d: %v", seed, r)
				}
			}()
			w := newWorld(t, seed, chaosConfig(seed))
			w.run(3000)
			w.verify()
			changes += w.changes
			for _, fate := range w.fate {
				kinds[fate]++
			}
		}()
	}
	t.Logf("fates of proposals: %v; changes of the membership: %d", kinds, changes)
	if changes < 20 {
		t.Error("hardly any change of the membership")
	}
	for _, k := range []string{"acked", "unknown", "not_applied"} {
		if kinds[k] < 100 {
			t.Errorf("only %d proposals were %s: the test has lost its teeth", kinds[k], k)
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	hash := func(seed uint64) uint64 {
		w := newWorld(t, seed, chaosConfig(seed))
		w.run(2000)
		h := fnv.New64a()
		io.WriteString(h, w.trace.String())
		return h.Sum64()
	}
	for seed := range uint64(5) {
		if a, b := hash(seed), hash(seed); a != b {
			t.Fatalf("seed %d ran two ways", seed)
		}
	}
}
