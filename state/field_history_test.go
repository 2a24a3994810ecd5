package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// More kinds of faults from the field: of compaction and history.

// TestCompactionIsIncremental (B134): one command makes any amount of history
// unreadable at once, and what it leaves is freed in steps of the size that is asked
// for. Half-way replicas that have swept differently are equal, and writes go on.
func TestCompactionIsIncremental(t *testing.T) {
	const versions, step = 20_000, 1_000
	s, lazy := newScript(), newScript()
	for _, m := range []*script{s, lazy} {
		for i := range versions / 10 {
			m.do(t, fmt.Sprintf("txn%s", strings.Repeat("\n then put k 1", 10)))
			if i%100 == 0 {
				m.do(t, "put other 1")
			}
		}
		m.do(t, fmt.Sprintf("compact %d", m.machine.Revision()))
		m.must(t, "get k rev=1", fmt.Sprintf("error compacted field=revision compacted=%d", m.machine.Revision()))
	}
	steps := 0
	for s.machine.Sweep(step) {
		steps++
		s.do(t, "put other 2")
		lazy.do(t, "put other 2")
		if s.machine.Digest() != lazy.machine.Digest() || s.run("status") != lazy.run("status") {
			t.Fatalf("after %d steps the digests differ", steps)
		}
	}
	if steps < versions/step-1 || steps > versions/step+2 {
		t.Errorf("%d events were swept in %d steps of %d", versions, steps, step)
	}
	s.check(t)
	lazy.check(t)
	s.must(t, "reload", "equal")
	lazy.must(t, "reload", "equal")
	if s.machine.Digest() != lazy.machine.Digest() {
		t.Error("loaded, they differ")
	}
}

// TestEverythingIsCompacted (B128, B133): the newest revision is a deletion, and its
// tombstone is compacted. The revision does not go back, the next write takes the next
// one, and changes, leases and expiry begin where they should.
func TestEverythingIsCompacted(t *testing.T) {
	for _, reload := range []bool{false, true} {
		s := newScript()
		s.do(t, "put a 1")
		for range 100 {
			s.do(t, "put b 1")
			s.do(t, "delete b")
		}
		s.must(t, "compact 201", "rev 201 compacted 201")
		for s.machine.Sweep(10) {
		}
		if reload {
			s.must(t, "reload", "equal")
		}
		s.must(t, "revision", "rev 201 compacted 201")
		s.must(t, "changes prefix= after=201", "nothing next 201")
		s.must(t, "history b", "nothing")
		s.must(t, "list prefix=", "a=1 @1 v1")
		s.do(t, "grant 10s")
		s.must(t, "put b 2 lease=1", "rev 202")
		s.must(t, "history b", "202.0 written b=2 v1")
		s.do(t, "wait 10s")
		s.must(t, "sweep_leases", "rev 203 expired 1 skipped 0 deleted 1")
		s.check(t)
	}
}

// TestTouchKeepsHistory (B153): what a touch changes is the lease; every earlier
// version stays what it was.
func TestTouchKeepsHistory(t *testing.T) {
	s := newScript()
	s.do(t, "put k one ttl=10s")
	s.do(t, "put plain one")
	before := []string{s.run("get k rev=1"), s.run("get plain rev=2")}
	s.do(t, "txn\n then touch k 1h\n then touch plain 1h")
	s.do(t, "touch k 2h")
	for i, q := range []string{"get k rev=1", "get plain rev=2"} {
		s.must(t, q, before[i])
	}
	s.must(t, "history k", "1.0 written k=one v1")
	if got := s.run("history plain"); !strings.HasPrefix(got, "2.0 written plain=one v1; 3.0 written plain=one v2") {
		t.Error(got)
	}
	if got := s.run("get plain"); !strings.Contains(got, "lease=") {
		t.Error(got)
	}
	s.check(t)
}

// TestRevisionsThatCannotBeRead (B146, B165): every kind of read answers the same at
// the edges, and none of them is logged.
func TestRevisionsThatCannotBeRead(t *testing.T) {
	s := newScript()
	for i := range 6 {
		s.do(t, fmt.Sprintf("put k %d", i))
	}
	s.do(t, "compact 3")
	digest := s.machine.Digest()
	for _, q := range []string{"get k rev=%s", "get_many k rev=%s", "list prefix= rev=%s", "list k count_only rev=%s", "history k from=%s", "history k to=%s"} {
		for rev, want := range map[string]string{"2": "compacted", "3": "", "6": "", "7": "future_revision", "-1": "invalid_argument"} {
			got := s.run(fmt.Sprintf(q, rev))
			code := ""
			if rest, refused := strings.CutPrefix(got, "error "); refused {
				code, _, _ = strings.Cut(rest, " ")
			}
			if code != want {
				t.Errorf("%s at %s: %s, want %q", q, rev, got, want)
			}
		}
	}
	if s.machine.Digest() != digest {
		t.Error("a read changed the state")
	}
}

// TestKeyLimitIsOne (B154, B233): the same keys are taken and refused wherever a
// command or a query names one.
func TestKeyLimitIsOne(t *testing.T) {
	places := []string{
		"put %s 1", "put_many\n %s 1", "delete %s", "touch %s 1h", "get %s", "get_many %s", "list %s", "history %s", "changes %s",
		"txn\n if %s exists == true", "txn\n then put %s 1", "txn\n then get %s", "txn\n then delete %s", "txn\n then touch %s 1h",
		"txn\n else put %s 1",
	}
	for _, key := range []struct {
		name, key string
		valid     bool
	}{
		{"one byte", "k", true}, {"the limit", "@4096", true}, {"NUL", `\x00`, true}, {"not UTF-8", `\xff\xfe`, true},
		{"empty", "''", false}, {"over the limit", "@4097", false},
	} {
		for _, place := range places {
			s := newScript()
			if key.valid {
				s.do(t, "put "+key.key+" 1 ttl=1m")
			}
			got := s.run(fmt.Sprintf(place, key.key))
			if refused := strings.HasPrefix(got, "error invalid_argument"); refused == key.valid || strings.HasPrefix(got, "bad") {
				t.Errorf("%s: %s: %.80s", key.name, place, got)
			}
		}
	}
	for _, place := range []string{"delete prefix=%s", "list prefix=%s", "changes prefix=%s", "list range=%s..", "create_index i prefix=%s"} {
		for key, valid := range map[string]bool{"@4096": true, "@4097": false} {
			s := newScript()
			got := s.run(fmt.Sprintf(place, key))
			if refused := strings.HasPrefix(got, "error invalid_argument"); refused == valid || strings.HasPrefix(got, "bad") {
				t.Errorf("%s %s: %.80s", place, key, got)
			}
		}
	}
}

// TestLimitedListAllocatesNoMore (B160, B162): what a page of a list allocates depends on
// its limit, not on how many keys there are, dead ones among them; and it says that
// there is more.
func TestLimitedListAllocatesNoMore(t *testing.T) {
	allocated := func(keys int) float64 {
		s := newScript()
		s.do(t, "grant 1s")
		s.do(t, fmt.Sprintf("fill k count=%d lease=1", keys))
		s.do(t, "wait 1s") // dead, not swept: still there
		s.must(t, "list prefix=k limit=1 keys_only", fmt.Sprintf("1 keys k00000 to k00000 more after k00000 at %d", s.machine.Revision()))
		v := s.machine.View()
		q := &messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{
			Selector: &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte("k")}}, Limit: 1,
		}}}
		return testing.AllocsPerRun(10, func() {
			if _, err := v.Query(q, state.Now{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocated(3), allocated(9_000); many > few+2 {
		t.Errorf("%v allocations of 3 keys, %v of 9,000", few, many)
	}
}
