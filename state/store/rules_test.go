package store

import (
	"strings"
	"testing"

	"github.com/concord-kv/concord/messages"
	"google.golang.org/protobuf/proto"
)

// write applies one revision: "k=v" puts, "-k" deletes.
func write(s *Store, ops ...string) {
	rev := s.Revision() + 1
	for i, op := range ops {
		f := Fields{Mod: rev, OpIndex: uint32(i)}
		if key, ok := strings.CutPrefix(op, "-"); ok {
			f.Key, f.Tombstone = key, true
		} else {
			f.Key, f.Value, _ = strings.Cut(op, "=")
			f.Version = 1
			if prev, ok := s.Get(f.Key); ok {
				f.Create, f.Version = prev.Create(), prev.Version()+1
			}
		}
		s.Put(Make(f))
	}
}

func sweep(s *Store) {
	for s.Sweep(1) {
	}
}

func value(s *Store, key string, rev uint64) string {
	r, ok := s.View().Get(key, rev)
	if !ok {
		return "absent"
	}
	return r.Value()
}

func history(v *View, key string, from uint64) (out []string) {
	v.History(key, from, v.Revision(), false, func(e Event) bool {
		s := e.Rec.Value()
		if e.Rec.Tombstone() {
			s = "deleted"
		}
		out = append(out, s)
		return true
	})
	return out
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// everyWay runs check on the store as it is, swept, and loaded from a snapshot of
// either: nothing may depend on which.
func everyWay(t *testing.T, build func() *Store, check func(t *testing.T, s *Store)) {
	load := func(s *Store) *Store {
		back, err := reload(s.View())
		if err != nil {
			t.Fatal(err)
		}
		return back
	}
	swept := build()
	sweep(swept)
	digest := build().Digest()
	for name, s := range map[string]*Store{"not swept": build(), "swept": swept, "loaded": load(build()), "swept and loaded": load(swept)} {
		t.Run(name, func(t *testing.T) {
			expect(t, "digest", s.Digest(), digest)
			check(t, s)
		})
	}
}

// TestDeleteAndPutAtTheCompactRevision (B130): the state at C is the new record; both
// events of C are gone, the live value stays.
func TestDeleteAndPutAtTheCompactRevision(t *testing.T) {
	everyWay(t, func() *Store {
		s := New()
		write(s, "k=old")
		write(s, "-k", "k=new")
		s.Compact(2, nil)
		return s
	}, func(t *testing.T, s *Store) {
		expect(t, "value", value(s, "k", 2), "new")
		expect(t, "history", strings.Join(history(s.View(), "k", 2), " "), "new")
		expect(t, "events", s.Events(), 0)
		s.View().Changes(2, ^uint32(0), func(e Event) bool { t.Errorf("event %s", showRec(e.Rec)); return true })
	})
}

// TestPutAndDeleteAtTheCompactRevision: nothing is left.
func TestPutAndDeleteAtTheCompactRevision(t *testing.T) {
	everyWay(t, func() *Store {
		s := New()
		write(s, "k=1", "-k")
		s.Compact(1, nil)
		return s
	}, func(t *testing.T, s *Store) {
		expect(t, "value", value(s, "k", 1), "absent")
		expect(t, "keys", s.Keys(), 0)
		expect(t, "bytes", s.LogicalBytes(), 0)
		expect(t, "history", len(history(s.View(), "k", 1)), 0)
	})
}

// TestRevisionOutlivesItsRecords (B128, B133): when the newest events are compacted
// tombstones the revision does not go back.
func TestRevisionOutlivesItsRecords(t *testing.T) {
	everyWay(t, func() *Store {
		s := New()
		write(s, "a=1")
		for range 100 {
			write(s, "b=1")
			write(s, "-b")
		}
		s.Compact(201, nil)
		return s
	}, func(t *testing.T, s *Store) {
		expect(t, "revision", s.Revision(), 201)
		expect(t, "readable", s.View().Changes(202, ^uint32(0), func(Event) bool { return true }), true)
		write(s, "c=1")
		expect(t, "revision", s.Revision(), 202)
		expect(t, "c", value(s, "c", 202), "1")
	})
}

// TestHistoryStartsWithTheStateAtCompaction: from C on history shows the record that
// was current at C, from later on only what happened.
func TestHistoryStartsWithTheStateAtCompaction(t *testing.T) {
	everyWay(t, func() *Store {
		s := New()
		write(s, "k=1")
		write(s, "k=2")
		write(s, "x=1")
		write(s, "-k")
		write(s, "k=5")
		s.Compact(3, nil)
		return s
	}, func(t *testing.T, s *Store) {
		v := s.View()
		expect(t, "from 3", strings.Join(history(v, "k", 3), " "), "2 deleted 5")
		expect(t, "from 4", strings.Join(history(v, "k", 4), " "), "deleted 5")
		expect(t, "at 3", value(s, "k", 3), "2")
		expect(t, "at 4", value(s, "k", 4), "absent")
		expect(t, "readable at 2", v.Readable("k", "k\x00", 2), false)
		expect(t, "readable at 3", v.Readable("k", "k\x00", 3), true)
		expect(t, "readable at 6", v.Readable("k", "k\x00", 6), false)
		expect(t, "changes after 2", v.Changes(2, ^uint32(0), func(Event) bool { return true }), false)
	})
}

// TestProtectedPrefixKeepsHistory: a read below C needs its whole selector in one
// protected prefix and a revision at or above the floor; changes never reach there.
func TestProtectedPrefixKeepsHistory(t *testing.T) {
	everyWay(t, func() *Store {
		s := New()
		write(s, "p/a=1", "q=1")
		write(s, "p/a=2", "q=2")
		s.Compact(1, []Protected{{"p/", 1}, {"p/z", 1}})
		write(s, "-p/a", "-q")
		write(s, "p/b=4")
		s.Compact(4, []Protected{{"p/", 1}, {"p/z", 1}})
		return s
	}, func(t *testing.T, s *Store) {
		v := s.View()
		lo, hi := Bounds(prefixSelector("p/"))
		expect(t, "readable at floor", v.Readable(lo, hi, 1), true)
		expect(t, "readable below floor", v.Readable(lo, hi, 0), false)
		expect(t, "wider selector", v.Readable("p", hi, 2), false)
		expect(t, "everything", v.Readable("", "", 2), false)
		expect(t, "p/a at 1", value(s, "p/a", 1), "1")
		expect(t, "p/a at 2", value(s, "p/a", 2), "2")
		expect(t, "p/a at 3", value(s, "p/a", 3), "absent")
		expect(t, "history", strings.Join(history(v, "p/a", 1), " "), "1 2 deleted")
		expect(t, "changes", v.Changes(3, ^uint32(0), func(Event) bool { return true }), false)
		s.Compact(4, nil)
		expect(t, "readable once dropped", s.View().Readable(lo, hi, 2), false)
		sweep(s)
		expect(t, "records in the tree", s.r.tree.size(), 1)
		expect(t, "kept versions", s.r.kept == nil || s.r.kept.Len() == 0, true)
		expect(t, "still readable in the older view", v.Readable(lo, hi, 2), true)
		r, _ := v.Get("p/a", 2)
		expect(t, "p/a at 2 in the older view", r.Value(), "2")
	})
}

// TestRebase: a restore goes on at a far revision without history.
func TestRebase(t *testing.T) {
	const far = 1<<40 + 17
	s := New()
	write(s, "a=1", "b=1")
	write(s, "a=2", "-b")
	s.Rebase(far)
	for range 3_000 {
		write(s, "a=3")
	}
	expect(t, "compacted", s.Compacted(), far)
	expect(t, "revision", s.Revision(), far+3_000)
	expect(t, "a", value(s, "a", far), "2")
	expect(t, "b", value(s, "b", far), "absent")
	expect(t, "events", s.Events(), 3_000)
	expect(t, "digest", s.FullDigest(), s.Digest())
	back, err := reload(s.View())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "digest after loading", back.Digest(), s.Digest())
}

// TestPutPanicsOnAGap: revisions and op indexes are dense.
func TestPutPanicsOnAGap(t *testing.T) {
	for name, r := range map[string]Rec{
		"skipped revision":  Make(Fields{Key: "k", Mod: 3, Version: 1}),
		"old revision":      Make(Fields{Key: "k", Mod: 0, Version: 1}),
		"repeated op index": Make(Fields{Key: "k", Mod: 1, Version: 1}),
		"skipped op index":  Make(Fields{Key: "k", Mod: 1, OpIndex: 2, Version: 1}),
		"first op not 0":    Make(Fields{Key: "k", Mod: 2, OpIndex: 1, Version: 1}),
		"delete of nothing": Make(Fields{Key: "absent", Mod: 2, Tombstone: true}),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			s := New()
			write(s, "k=1")
			s.Put(r)
		}()
	}
}

// TestLoaderRefuses rows that cannot come from a snapshot.
func TestLoaderRefuses(t *testing.T) {
	rec := func(key string, mod, version uint64) *messages.Record {
		return &messages.Record{Key: []byte(key), ModRevision: mod, CreateRevision: mod, Version: version}
	}
	floor := func(r *messages.Record) *messages.SnapshotRow {
		return &messages.SnapshotRow{Row: &messages.SnapshotRow_Floor{Floor: r}}
	}
	current := func(r *messages.Record) *messages.SnapshotRow {
		return &messages.SnapshotRow{Row: &messages.SnapshotRow_Current{Current: r}}
	}
	event := func(r *messages.Record) *messages.SnapshotRow {
		e := &messages.Event{Revision: r.ModRevision, Type: messages.EventType_EVENT_TYPE_PUT, Record: r}
		if r.Version == 0 {
			e.Type = messages.EventType_EVENT_TYPE_DELETE
		}
		return &messages.SnapshotRow{Row: &messages.SnapshotRow_Event{Event: e}}
	}
	for name, rows := range map[string][]*messages.SnapshotRow{
		"an event missing at the end":      {event(rec("a", 4, 1))},
		"an event missing at the start":    {event(rec("a", 5, 1))},
		"an event after the revision":      {event(rec("a", 4, 1)), event(rec("a", 5, 2)), event(rec("a", 6, 3))},
		"a delete of an absent key":        {event(rec("a", 4, 0)), event(rec("a", 5, 1))},
		"a floor after C":                  {floor(rec("a", 4, 1)), event(rec("a", 4, 2)), event(rec("a", 5, 2))},
		"a floor after an event":           {event(rec("a", 4, 1)), event(rec("a", 5, 2)), floor(rec("b", 1, 1))},
		"floors out of order":              {floor(rec("b", 1, 1)), floor(rec("a", 2, 1))},
		"a key twice in current":           {event(rec("a", 4, 1)), event(rec("a", 5, 2)), current(rec("b", 1, 1)), current(rec("b", 2, 2))},
		"a current key that events wrote":  {event(rec("a", 4, 1)), event(rec("a", 5, 2)), current(rec("a", 3, 1))},
		"an unprotected version below":     {floor(rec("b", 1, 1)), floor(rec("b", 2, 2))},
		"an unprotected tombstone":         {floor(rec("b", 1, 0))},
		"a record without key":             {floor(rec("", 1, 1))},
		"a record without revision":        {floor(rec("a", 0, 1))},
		"a create revision in the future":  {floor(&messages.Record{Key: []byte("a"), ModRevision: 1, CreateRevision: 2, Version: 1})},
		"a row of another table":           {{Row: &messages.SnapshotRow_Sample{}}},
		"an empty row":                     {{}},
		"a floor row without record":       {{Row: &messages.SnapshotRow_Floor{}}},
		"an event row without event":       {{Row: &messages.SnapshotRow_Event{}}},
		"a delete event that is no delete": {{Row: &messages.SnapshotRow_Event{Event: &messages.Event{Revision: 4, Type: messages.EventType_EVENT_TYPE_DELETE, Record: rec("a", 4, 1)}}}},
	} {
		if err := load(5, 3, nil, rows); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := load(5, 3, nil, []*messages.SnapshotRow{floor(rec("a", 1, 1)), event(rec("a", 4, 2)), event(rec("b", 5, 1)), current(rec("c", 3, 1))}); err != nil {
		t.Errorf("a good snapshot: %v", err)
	}
	if _, err := NewLoader(3, 5, nil); err == nil {
		t.Error("compacted above the revision: accepted")
	}
	if _, err := NewLoader(5, 3, []Protected{{"a", 4}}); err == nil {
		t.Error("a floor above the compact revision: accepted")
	}
}

func load(revision, compacted uint64, protected []Protected, rows []*messages.SnapshotRow) error {
	l, err := NewLoader(revision, compacted, protected)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := l.Row(r); err != nil {
			return err
		}
	}
	_, err = l.Finish()
	return err
}

// FuzzLoader feeds rows of any content: it may refuse, it may not panic, and what it
// accepts must read back with the digest that it claims.
func FuzzLoader(f *testing.F) {
	s := New()
	write(s, "a=1", "p=1")
	write(s, "a=2", "-p")
	s.Compact(1, []Protected{{"p", 1}})
	write(s, "p=3")
	s.Compact(2, []Protected{{"p", 1}})
	write(s, "p=4", "b=4")
	s.View().Rows(func(r *messages.SnapshotRow) bool {
		raw, _ := proto.Marshal(r)
		f.Add(raw, raw, uint64(4), uint64(2))
		return true
	})
	f.Fuzz(func(t *testing.T, a, b []byte, revision, compacted uint64) {
		l, err := NewLoader(revision, compacted, []Protected{{"p", min(compacted, 1)}})
		for _, raw := range [][]byte{a, b} {
			var row messages.SnapshotRow
			if err != nil || proto.Unmarshal(raw, &row) != nil || l.Row(&row) != nil {
				return
			}
		}
		if s, err := l.Finish(); err == nil && s.Digest() != s.FullDigest() {
			t.Errorf("digest %x, full %x", s.Digest(), s.FullDigest())
		}
	})
}
