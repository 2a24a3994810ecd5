package store

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// Loader builds a Store from the rows of a snapshot. Rows are not trusted: each is
// checked against the ones before it, and what rows cannot show is left to the
// digest.
type Loader struct {
	s        *Store
	revision uint64
	stage    int
	last     Rec  // of the rows of this stage
	late     sums // what current rows add to every sum
	row      Row  // scratch
}

const (
	stageFloors = iota
	stageEvents
	stageCurrent
)

// NewLoader starts a store with this revision, compact revision and protected
// prefixes.
func NewLoader(revision, compacted uint64, protected []Protected) (*Loader, error) {
	if compacted > revision || revision > messages.RevisionMax {
		return nil, fmt.Errorf("store: compact revision %d, revision %d", compacted, revision)
	}
	list := canonical(protected)
	for _, p := range list {
		if p.Floor > compacted {
			return nil, fmt.Errorf("store: floor %d of protected prefix %q above compact revision %d", p.Floor, p.Prefix, compacted)
		}
	}
	s := New()
	s.reset(compacted)
	s.r.protected = list
	return &Loader{s: s, revision: revision}, nil
}

// Row takes the next row, which must be a floor, an event or a current row.
func (l *Loader) Row(m *messages.SnapshotRow) error {
	if !l.row.FromMessage(m) {
		return fmt.Errorf("store: a row of type %T", m.GetRow())
	}
	return l.Take(&l.row)
}

// Take takes the next row. It keeps nothing of what the row shares.
func (l *Loader) Take(row *Row) error {
	switch row.kind {
	case RowFloor:
		return l.old(stageFloors, row)
	case RowEvent:
		return l.event(row)
	case RowCurrent:
		return l.old(stageCurrent, row)
	}
	return fmt.Errorf("store: a row of kind %d", row.kind)
}

func (l *Loader) enter(stage int) error {
	if stage < l.stage {
		return fmt.Errorf("store: a row of table %d after table %d", stage, l.stage)
	}
	if stage == l.stage {
		return nil
	}
	if l.stage == stageFloors {
		l.s.floor = l.s.sum
	}
	l.stage, l.last = stage, ""
	return nil
}

// old takes a record from the compact revision or before.
func (l *Loader) old(stage int, row *Row) error {
	if err := l.enter(stage); err != nil {
		return err
	}
	r, ok := row.rec()
	if !ok {
		return fmt.Errorf("store: not a record: key %q at %d.%d", row.fields.KeyBytes, row.fields.Mod, row.fields.OpIndex)
	}
	if r.Mod() > l.s.r.compacted {
		return fmt.Errorf("store: key %q at %d, after compact revision %d", r.Key(), r.Mod(), l.s.r.compacted)
	}
	if l.last != "" && !versionLess(l.last, r) {
		return fmt.Errorf("store: key %q at %d.%d out of order", r.Key(), r.Mod(), r.OpIndex())
	}
	l.last = r
	return l.place(stage, r)
}

func (l *Loader) place(stage int, r Rec) error {
	floor, protected := keyFloor(l.s.r.protected, r.Key())
	if r.Tombstone() && (!protected || r.Mod() <= floor) {
		return fmt.Errorf("store: tombstone of key %q at %d without history", r.Key(), r.Mod())
	}
	prev, _ := l.s.r.tree.set(r, 0)
	if prev != "" {
		// The older one is history, which only a protected prefix keeps.
		if !protected || r.Mod() <= floor || !versionLess(prev, r) {
			return fmt.Errorf("store: key %q twice, at %d and %d", r.Key(), prev.Mod(), r.Mod())
		}
		l.s.keep(prev, r.Mod())
	}
	e := entry{rec: r, prev: prev}
	l.s.count(&e)
	var d sums
	d.add(&e, l.s.r.protected)
	to := &l.s.sum
	if stage == stageCurrent {
		to = &l.late
	}
	to.state += d.state
	to.kept += d.kept
	to.keptBytes += d.keptBytes
	return nil
}

func (l *Loader) event(row *Row) error {
	if err := l.enter(stageEvents); err != nil {
		return err
	}
	r, ok := row.rec()
	if !ok || r.Mod() != row.revision || r.Tombstone() != (row.change == messages.EventType_EVENT_TYPE_DELETE) {
		return fmt.Errorf("store: not an event: key %q at %d.%d", row.fields.KeyBytes, row.revision, row.fields.OpIndex)
	}
	if r.Mod() > l.revision {
		return fmt.Errorf("store: event %d.%d after revision %d", r.Mod(), r.OpIndex(), l.revision)
	}
	if err := l.s.follows(r); err != nil {
		return err
	}
	if r.Tombstone() {
		if _, ok := l.s.Get(r.Key()); !ok {
			return fmt.Errorf("store: event %d.%d deletes absent key %q", r.Mod(), r.OpIndex(), r.Key())
		}
	}
	l.s.Put(r)
	return nil
}

// Finish returns the store. It refuses when events are missing. The Loader must not
// be used again.
func (l *Loader) Finish() (*Store, error) {
	if err := l.enter(stageCurrent); err != nil {
		return nil, err
	}
	s := l.s
	if s.r.rev != l.revision {
		return nil, fmt.Errorf("store: events end at revision %d of %d", s.r.rev, l.revision)
	}
	for _, to := range append([]*sums{&s.sum, &s.floor}, pointers(s.marks)...) {
		to.state += l.late.state
		to.kept += l.late.kept
		to.keptBytes += l.late.keptBytes
	}
	return s, nil
}

func pointers(list []sums) []*sums {
	out := make([]*sums, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// Rebase moves to a higher revision and compacts everything before it: live records
// stay as they are, history, events and what protected prefixes kept are gone, and
// every floor is the new revision. It is for a restore into a new incarnation and
// costs a pass over all keys. It panics when revision is below the current one.
func (s *Store) Rebase(revision uint64) {
	if revision < s.r.rev {
		panic(fmt.Sprintf("store: rebase to %d, revision %d", revision, s.r.rev))
	}
	var dead []string
	s.r.tree.ascend("", "", func(r Rec, _ uint32) bool {
		if r.Tombstone() {
			dead = append(dead, r.Key())
		}
		return true
	})
	for _, key := range dead {
		s.r.tree.remove(key)
	}
	s.reset(revision)
	list := canonical(s.r.protected)
	for i := range list {
		list[i].Floor = revision
	}
	s.r.protected, s.r.kept, s.keptView, s.dirty, s.dirtyAt = list, nil, nil, nil, replaced{}
	s.sum = sums{state: s.sum.state}
	s.floor = s.sum
}
