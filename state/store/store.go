package store

import (
	"fmt"

	"github.com/tidwall/btree"
)

// Store is the records of one replica. One goroutine owns it. New makes an empty one
// at revision 0; NewLoader makes one from the rows of a snapshot.
type Store struct {
	r        reader
	nextOp   uint32
	keys     int
	live     uint64 // logical bytes of the live records
	sum      sums   // up to the newest event
	floor    sums   // up to the last event of the compact revision
	marks    []sums // marks[i] is sum before the first event of r.segs[i]
	limit    uint64 // seq of the first event after the compact revision
	dirty    []string
	dirtyAt  replaced // where the cleaning of dirty[0] goes on
	shed     int      // segments and blocks cut off whose headers still hold them
	keptView *btree.BTreeG[replaced]
}

// New returns an empty store at revision 0.
func New() *Store {
	s := &Store{}

	s.reset(0)
	return s
}

// reset empties the log at a revision whose state is all that is left.
func (s *Store) reset(rev uint64) {
	s.r.log = log{rev: rev, compacted: rev, baseRev: rev + 1, revBlock: rev >> blockBits, blocks: []block{{first: new([blockRevs]uint32)}}}
	s.marks, s.limit, s.shed, s.nextOp = nil, 0, 0, 0
}

// Revision returns the newest revision.
func (s *Store) Revision() uint64 { return s.r.rev }

// Compacted returns the compact revision: the state can be read at it and above,
// and events above it can be replayed.
func (s *Store) Compacted() uint64 { return s.r.compacted }

// Keys returns the number of live keys.
func (s *Store) Keys() int { return s.keys }

// Events returns the number of events after the compact revision.
func (s *Store) Events() int { return int(s.r.next - s.limit) }

// LogicalBytes returns what counts against the quota, as if every sweep were done:
// the LogicalBytes of live records; for each event after the compact revision
// EventBytes, its tombstone and the record it replaced; and what protected prefixes
// keep.
func (s *Store) LogicalBytes() uint64 {
	return s.live + s.sum.bytes - s.floor.bytes + s.floor.keptBytes
}

// Get returns the live record of key.
func (s *Store) Get(key string) (Rec, bool) {
	r, _ := s.r.tree.get(key)
	return r, r.live()
}

// Ascend visits the live records with lo <= key < hi in order until fn returns
// false; hi "" is the end of the key space. fn must not change the store.
func (s *Store) Ascend(lo, hi string, fn func(Rec) bool) { s.r.ascendLive(lo, hi, fn) }

// Descend is Ascend from the highest key down.
func (s *Store) Descend(lo, hi string, fn func(Rec) bool) { s.r.descendLive(lo, hi, fn) }

// Put applies one event: a record, or a tombstone for a live key. Its revision must
// be the current or the next one and its op index the next in that. It returns the
// live record that it replaced, "" for none. It panics on anything else: the caller
// assigns revisions, so a gap is a defect.
func (s *Store) Put(r Rec) (prev Rec) {
	if err := s.follows(r); err != nil {
		panic(err.Error())
	}
	if r.Mod() > s.r.rev {
		s.r.begin()
		s.nextOp = 0
	}
	s.nextOp++
	old, tag := s.r.tree.set(r, uint32(s.r.next))
	e, k := entry{rec: r, prev: old}, link{}
	if old != "" {
		k = s.r.link(old, tag)
	}
	if k.tomb = r.Tombstone(); k.tomb && !old.live() {
		panic(fmt.Sprintf("store: delete of absent key %q at %d.%d", r.Key(), r.Mod(), r.OpIndex()))
	}
	before := s.sum
	s.count(&e)
	s.sum.add(&e, s.r.protected)
	if s.r.append(e, k) {
		s.marks = append(s.marks, before)
	}
	if !old.live() {
		return ""
	}
	return old
}

// follows tells why r cannot be the next event; nil when it can.
func (s *Store) follows(r Rec) error {
	mod, op := r.Mod(), r.OpIndex()
	if mod == s.r.rev+1 && op == 0 || mod == s.r.rev && op == s.nextOp && mod > s.r.compacted {
		return nil
	}
	return fmt.Errorf("store: event %d.%d does not follow %d events of revision %d (compacted %d)",
		mod, op, s.nextOp, s.r.rev, s.r.compacted)
}

func (s *Store) count(e *entry) {
	if e.prev.live() {
		s.keys--
		s.live -= e.prev.LogicalBytes()
	}
	if !e.rec.Tombstone() {
		s.keys++
		s.live += e.rec.LogicalBytes()
	}
}

// View returns the store as it is, frozen. Its cost does not depend on the size; it
// makes later writes copy the tree nodes they touch, so take one when somebody reads.
func (s *Store) View() *View {
	v := &View{reader: s.r, keys: s.keys, bytes: s.LogicalBytes(), events: s.Events(), digest: s.Digest()}
	v.tree = s.r.tree.freeze()
	if s.r.kept != nil {
		if s.keptView == nil {
			s.keptView = s.r.kept.Copy()
		}
		v.kept = s.keptView
	}
	return v
}

func (s *Store) keep(r Rec, by uint64) {
	if s.r.kept == nil {
		s.r.kept = btree.NewBTreeGOptions(keptLess, btree.Options{NoLocks: true})
	}
	s.keptView = nil
	s.r.kept.Set(replaced{r, by})
}
