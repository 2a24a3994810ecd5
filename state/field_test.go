package state_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// Faults that users of systems like this one have reported, each as a test of the
// kind. The scripts in testdata cover more of them.

// must runs a script line that has to be answered like this.
func (s *script) must(t *testing.T, command, want string) {
	t.Helper()
	if got := s.run(command); got != want {
		t.Fatalf("%s\n got %s\nwant %s", command, got, want)
	}
}

// do runs a script line that must not be refused.
func (s *script) do(t *testing.T, command string) string {
	t.Helper()
	got := s.run(command)
	if strings.HasPrefix(got, "error") || strings.HasPrefix(got, "bad") || strings.HasPrefix(got, "no such") {
		t.Fatalf("%s: %s", command, got)
	}
	return got
}

// check compares the digest with the full one, which also checks that each key's
// lease has the key and the other way round.
func (s *script) check(t *testing.T) {
	t.Helper()
	if d := s.machine.FullDigest(); d != s.machine.Digest() {
		t.Fatalf("digest %x, full %x", s.machine.Digest(), d)
	}
}

// TestRevokedLeaseSparesRecreatedKey: ending a lease removes only the keys whose
// record still has it.
func TestRevokedLeaseSparesRecreatedKey(t *testing.T) {
	ways := map[string][]string{
		"delete and put":        {"delete k", "put k new"},
		"overwrite":             {"put k new"},
		"delete and put with B": {"delete k", "put k new lease=2"},
		"transaction":           {"txn\n then delete k\n then put k new"},
		"put_many":              {"put_many\n k new\n l 1"},
		"put with ttl after":    {"delete k", "put k new ttl=1h"},
	}
	ends := map[string][]string{"revoke": {"revoke 1"}, "expire": {"wait 10s", "sweep_leases"}}
	for way, steps := range ways {
		for end, last := range ends {
			for _, reload := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, reload %v", way, end, reload), func(t *testing.T) {
					s := newScript()
					s.do(t, "grant 10s")
					s.do(t, "grant 1h")
					s.do(t, "put k old lease=1")
					for _, step := range steps {
						s.do(t, step)
						s.check(t)
					}
					if got := s.run("info 1"); strings.Contains(got, " k") && !strings.Contains(got, "keys 0") {
						t.Fatalf("the lease still lists it: %s", got)
					}
					if reload {
						s.must(t, "reload", "equal")
					}
					for _, step := range last {
						s.do(t, step)
					}
					if got := s.run("get k"); !strings.HasPrefix(got, "k=new") {
						t.Fatalf("k is %s", got)
					}
					s.check(t)
				})
			}
		}
	}
}

// TestAttachmentsSurviveReload: every sequence of attaching and detaching, with a
// snapshot after every prefix of it, gives the same links.
func TestAttachmentsSurviveReload(t *testing.T) {
	steps := []string{"put k 1 lease=1", "put k 1 lease=2", "put k 1", "delete k", "revoke 1"}
	var walk func(sequence []string)
	walk = func(sequence []string) {
		if len(sequence) == 4 {
			straight, reloaded := newScript(), newScript()
			for _, s := range []*script{straight, reloaded} {
				s.do(t, "grant 1h")
				s.do(t, "grant 1h")
			}
			for _, step := range sequence {
				want := straight.run(step)
				reloaded.must(t, "reload", "equal")
				reloaded.must(t, step, want)
			}
			if straight.machine.Digest() != reloaded.machine.Digest() {
				t.Fatalf("%v: digests differ", sequence)
			}
			straight.check(t)
			reloaded.check(t)
			return
		}
		for _, step := range steps {
			walk(append(slices.Clone(sequence), step))
		}
	}
	walk(nil)
}

// TestUnknownLeaseChangesNothing: naming a lease that does not exist refuses the
// whole command.
func TestUnknownLeaseChangesNothing(t *testing.T) {
	s := newScript()
	s.do(t, "put c 1")
	before := s.run("status")
	for _, command := range []string{
		"put b 1 lease=404",
		"txn\n then put a 1\n then put b 1 lease=404\n then delete c",
		"put_many\n a 1\n b 1 lease=404",
	} {
		if got := s.run(command); !strings.HasPrefix(got, "error unknown_lease") {
			t.Fatalf("%s: %s", command, got)
		}
		s.must(t, "status", before)
		s.must(t, "events", "nothing")
		s.check(t)
	}
}

// TestEveryWriteTreatsLeasesAlike: the same wish gives the same lease, however it is
// written.
func TestEveryWriteTreatsLeasesAlike(t *testing.T) {
	ways := map[string]string{"put": "put k 2%s", "put_many": "put_many\n k 2%s", "txn": "txn\n then put k 2%s"}
	wishes := map[string]struct{ lease, code string }{
		"":              {"", ""},
		" lease=1":      {"lease=1", ""},
		" lease=2":      {"lease=1", "lease_conflict"},
		" ttl=5s":       {"lease=1", "lease_conflict"},
		" ignore_lease": {"lease=1", ""},
	}
	for way, format := range ways {
		for wish, want := range wishes {
			s := newScript()
			s.do(t, "grant 1h")
			s.do(t, "grant 1h")
			s.do(t, "put k 1 lease=1")
			got := s.run(fmt.Sprintf(format, wish))
			if want.code == "" && strings.HasPrefix(got, "error") || !strings.Contains(got, want.code) {
				t.Errorf("%s%s: %s", way, wish, got)
			}
			if got := s.run("get k"); strings.Contains(got, "lease=1") != (want.lease != "") {
				t.Errorf("%s%s: %s", way, wish, got)
			}
			s.check(t)
		}
	}
}

// TestLeaseChurnLeavesNothing: 100,000 leases that came and went leave no row, no
// deadline and no memory, on a replica that never led as on any other.
func TestLeaseChurnLeavesNothing(t *testing.T) {
	s := newScript()
	s.do(t, "config retention_revisions=1")
	round := func(n int) {
		for range n {
			id := strings.Fields(s.do(t, "grant 1h"))[3]
			for _, k := range []string{"a", "b", "c"} {
				s.do(t, "put "+k+" 1 lease="+id)
			}
			s.must(t, "revoke "+id, fmt.Sprintf("rev %d deleted 3", s.machine.Revision()+1))
		}
		s.do(t, "tick")
		for s.machine.Sweep(1000) {
		}
	}
	cycles := 100_000
	if testing.Short() {
		cycles = 10_000
	}
	round(1000)
	before := heap()
	round(cycles)
	if after := heap(); after > before+before/20+1<<20 {
		t.Errorf("heap grew from %d to %d bytes", before, after)
	}
	if st := s.machine.Stats(); st.Leases != 0 || st.Keys != 0 {
		t.Errorf("left: %+v", st)
	}
	if at := s.machine.EarliestDeadline(); at != 0 {
		t.Errorf("a deadline is left: %d", at)
	}
	s.check(t)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestLeaseEndIsAtomic: of 1, 50, 51 and 10,000 keys either all are there with the
// lease, or all are gone at one revision.
func TestLeaseEndIsAtomic(t *testing.T) {
	for _, n := range []int{1, 50, 51, 10_000} {
		s := newScript()
		s.do(t, "grant 10s")
		s.do(t, fmt.Sprintf("fill k count=%d lease=1", n))
		rev := s.machine.Revision()
		s.do(t, "wait 10s")
		s.must(t, "list prefix=k count_only", fmt.Sprintf("count %d at %d", n, rev))
		s.must(t, "sweep_leases", fmt.Sprintf("rev %d expired 1 skipped 0 deleted %d", rev+1, n))
		s.must(t, "list prefix=k count_only", fmt.Sprintf("count 0 at %d", rev+1))
		s.must(t, fmt.Sprintf("list prefix=k count_only rev=%d", rev), fmt.Sprintf("count %d at %d", n, rev))
		s.check(t)
	}
}

// TestRevokeRacesExpiry: of several commands that end one lease, in one entry, one
// has an effect.
func TestRevokeRacesExpiry(t *testing.T) {
	s := newScript()
	s.do(t, "grant 1s")
	s.do(t, "put k 1 lease=1")
	s.do(t, "wait 1s")
	epoch, replica, nonce := s.machine.ClockOwner()
	e := &messages.Entry{Epoch: epoch, ReplicaId: replica, Nonce: nonce}
	for i := range 100 {
		c := &messages.Command{StampMs: s.nowMs, Op: &messages.Command_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: 1}}}
		if i%2 == 0 {
			c.Op = &messages.Command_ExpireLeases{ExpireLeases: &messages.ExpireLeases{Pairs: []*messages.ExpireLeases_Pair{{LeaseId: 1}}}}
		}
		e.Commands = append(e.Commands, c)
	}
	s.index++
	results := s.machine.Apply(s.index, e)
	ended := 0
	for _, r := range results {
		if r.GetExpireLeases().GetExpired() > 0 || r.GetRevokeLease() != nil {
			ended++
		}
	}
	if ended != 1 || len(s.machine.TakeEffects().Events) != 1 {
		t.Fatalf("%d commands ended the lease", ended)
	}
}

// TestLeaseListIsStable: ids come in order, and pages hold together while leases come
// and go between them.
func TestLeaseListIsStable(t *testing.T) {
	s := newScript()
	for range 10 {
		s.do(t, "grant 1h")
	}
	s.must(t, "leases limit=1", "lease 1 ttl 1h0m0s left 1h0m0s granted_at 0 keys 0 more")
	s.do(t, "revoke 1")
	s.do(t, "revoke 5")
	s.do(t, "grant 1h")
	var ids []string
	for after := "0"; ; {
		got := s.run("leases limit=2 after=" + after)
		for part := range strings.SplitSeq(got, ";") {
			ids = append(ids, strings.Fields(part)[1])
		}
		after = ids[len(ids)-1]
		if !strings.HasSuffix(got, "more") {
			break
		}
	}
	if want := "2 3 4 6 7 8 9 10 11"; strings.Join(ids, " ") != want {
		t.Fatalf("got %v, want %s", ids, want)
	}
}

// TestReplayAfterCompaction: the answer of a write outlives its revision.
func TestReplayAfterCompaction(t *testing.T) {
	s := newScript()
	s.must(t, "put k 1 idem=x", "rev 1")
	s.do(t, "put k 2")
	s.do(t, "put k 3")
	s.must(t, "compact 3", "rev 3 compacted 3")
	s.must(t, "put k 1 idem=x", "rev 1 replayed")
	if got := s.run("get k"); !strings.HasPrefix(got, "k=3") {
		t.Fatal(got)
	}
}

// TestFieldCompareNeverFails: values and paths of every kind give null or a value.
func TestFieldCompareNeverFails(t *testing.T) {
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, value := range []string{"", "5", `"text"`, "[1,2]", "null", "{", `{"a":5}`, `{"a":{"b":[]}}`, "\xff", "1e999999", "NaN", deep} {
		s := newScript()
		epoch, replica, nonce := s.machine.ClockOwner()
		c := &messages.Command{Op: &messages.Command_Put{Put: &messages.Put{Key: []byte("k"), Value: []byte(value), ContentType: "application/json"}}}
		s.machine.Apply(3, &messages.Entry{Epoch: epoch, ReplicaId: replica, Nonce: nonce, Commands: []*messages.Command{c}})
		s.index = 3
		for _, x := range []string{"field=a", "path=a.b", "path=a.b.c.d.e", "element=0", "element=4000000000", ""} {
			got := s.run("txn\n if k json <= {} " + x + "\n then put r 1")
			if strings.HasPrefix(got, "error") {
				t.Fatalf("%.20q %s: %s", value, x, got)
			}
		}
	}
}

// TestEveryWriteUpdatesEveryTable: one effect, reached by put, put_many and a
// transaction, gives one state.
func TestEveryWriteUpdatesEveryTable(t *testing.T) {
	begin := []string{
		"create_index i field=f", "step_index i", "grant 1h",
		`put a {"f":0} type=json`, "put b 0 ttl=1h", "put c 0 lease=1", `put d {"f":9} type=json lease=1`,
	}
	effects := []string{`a {"f":1} type=json`, "b 2", "c 3 lease=1", `d {"f":4} type=json ttl=5s`, `e {"f":5} type=json lease=1`}
	effects = slices.DeleteFunc(effects, func(e string) bool { return strings.HasPrefix(e, "d") }) // a conflict
	ways := map[string]func(s *script){
		"put": func(s *script) {
			for _, e := range effects {
				s.do(t, "put "+e)
			}
		},
		"put_many": func(s *script) { s.do(t, "put_many\n "+strings.Join(effects, "\n ")) },
		"txn":      func(s *script) { s.do(t, "txn\n then put "+strings.Join(effects, "\n then put ")) },
	}
	var first, firstWay string
	for way, write := range ways {
		s := newScript()
		for _, b := range begin {
			s.do(t, b)
		}
		write(s)
		s.check(t)
		var got []string
		for _, q := range []string{"lookup i keys_only", "leases anonymous", "info 1", "indexes"} {
			got = append(got, s.run(q))
		}
		for _, k := range []string{"a", "b", "c", "e"} {
			record := s.run("get " + k)
			history := s.run("history " + k + " newest_first limit=1")
			if !strings.Contains(history, strings.Fields(record)[0]) {
				t.Errorf("%s: current %s, history %s", way, record, history)
			}
		}
		// An index that is filled afterwards has what the one that was kept has.
		s.do(t, "create_index later field=f")
		s.do(t, "step_index later")
		if kept, filled := s.run("lookup i keys_only"), s.run("lookup later keys_only"); kept != filled {
			t.Errorf("%s: the index that writes kept has\n%s\none that was filled has\n%s", way, kept, filled)
		}
		state := strings.Join(got, "\n")
		for r := 1; r < 20; r++ { // revisions differ, nothing else
			state = strings.ReplaceAll(state, fmt.Sprintf("@%d ", r), "@ ")
		}
		if first == "" {
			first, firstWay = state, way
		} else if state != first {
			t.Errorf("%s:\n%s\n%s:\n%s", firstWay, first, way, state)
		}
	}
}

// TestPageBounds: a limited list looks at its limit and one more, whatever the store
// holds, dead keys included.
func TestPageBounds(t *testing.T) {
	for _, n := range []int{0, 1, 4, 5, 6} {
		s := newScript()
		if n > 0 {
			s.do(t, fmt.Sprintf("fill k count=%d", n))
		}
		got := s.run("list prefix=k limit=5 keys_only")
		if more := strings.Contains(got, "more"); more != (n > 5) {
			t.Errorf("%d keys: %s", n, got)
		}
		if want := fmt.Sprintf("%d keys", min(n, 5)); n > 0 && !strings.HasPrefix(got, want) {
			t.Errorf("%d keys: %s", n, got)
		}
	}
}

// TestListIsTheFoldOfGets: at every readable revision list, get, get_many and
// history say the same.
func TestListIsTheFoldOfGets(t *testing.T) {
	s := newScript()
	for i := range 60 {
		s.run([]string{"put a %d", "put b %d", "delete a", "put c %d ttl=1s", "delete prefix=", "txn\n then delete b\n then put b %d"}[i*7%6])
		s.run("wait 300ms")
		s.run("sweep_leases")
	}
	s.do(t, "compact 10")
	for r := uint64(10); r <= s.machine.Revision(); r++ {
		var parts []string
		for _, k := range []string{"a", "b", "c"} {
			if got := s.run(fmt.Sprintf("get %s rev=%d", k, r)); got != "none" {
				parts = append(parts, got)
			}
		}
		want := "nothing"
		if len(parts) > 0 {
			want = strings.Join(parts, "; ")
		}
		s.must(t, fmt.Sprintf("list prefix= rev=%d", r), want)
	}
}

// TestOverlappingEntriesAreRefused: an index that does not rise is a defect of the
// log, and stops the replica.
func TestOverlappingEntriesAreRefused(t *testing.T) {
	m := state.New()
	m.Apply(5, &messages.Entry{})
	for _, index := range []uint64{5, 4, 0} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("entry %d was taken after entry 5", index)
				}
			}()
			m.Apply(index, &messages.Entry{})
		}()
	}
}

// TestUnknownOperationStops: to skip what a newer build wrote would be to differ
// from it.
func TestUnknownOperationStops(t *testing.T) {
	for _, c := range []*messages.Command{
		{}, {Op: &messages.Command_RaiseApplyVersion{RaiseApplyVersion: &messages.RaiseApplyVersion{Version: messages.ApplyVersion + 1}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v was applied", c)
				}
			}()
			s := newScript()
			s.apply(&line{options: map[string]string{}}, c)
		}()
	}
}

// TestLeaseMemory: an idle lease with a key costs well under 1 KiB.
func TestLeaseMemory(t *testing.T) {
	const leases = 100_000
	s := newScript()
	epoch, replica, nonce := s.machine.ClockOwner()
	before := heap()
	for i := range leases {
		s.index++
		s.machine.Apply(s.index, &messages.Entry{Epoch: epoch, ReplicaId: replica, Nonce: nonce, Commands: []*messages.Command{
			{Op: &messages.Command_Put{Put: &messages.Put{Key: fmt.Appendf(nil, "service/%08d", i), TtlMs: 60_000}}},
		}})
		s.machine.TakeEffects()
	}
	each := (heap() - before) / leases
	runtime.KeepAlive(s)
	t.Logf("%d bytes a lease with a key", each)
	if each > 1024 {
		t.Errorf("%d bytes a lease with a key", each)
	}
}
