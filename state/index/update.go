package index

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/concord-kv/concord/state/field"
)

// Update maintains every index that covers key, whose record changes from old to
// new; either may be no record. Entries that both have are not touched. Old must be
// what the table was last told of the key: it panics when an entry to remove is not
// there or one to add is, since this replica then differs from the others.
func (t *Table) Update(key string, old, new Content) {
	if old == new {
		return
	}
	t.covering, t.paths = t.covering[:0], t.paths[:0]
	for _, ix := range t.indexes {
		if ix.covers(key) {
			t.covering = append(t.covering, ix)
			t.paths = append(t.paths, ix.path)
		}
	}
	if len(t.covering) == 0 {
		return
	}
	for len(t.old) < len(t.covering) {
		t.old = append(t.old, entrySet{})
	}

	t.scan(old)
	for i, ix := range t.covering {
		t.fill(&t.old[i], i, ix, key, old)
	}
	t.scan(new)
	for i, ix := range t.covering {
		t.fill(&t.new, i, ix, key, new)
		if ix.replace(&t.old[i], &t.new) {
			t.changed(ix)
		}
	}
}

// scan reads a record once for all of t.paths.
func (t *Table) scan(c Content) {
	if c.Present {
		t.parser.Scan(t.paths, c.ContentType, c.Value)
	}
}

// fill makes the entries of the record last scanned, for path i.
func (t *Table) fill(s *entrySet, i int, ix *index, key string, c Content) {
	if !c.Present {
		s.reset()
		return
	}
	t.value = t.parser.AppendValue(t.value[:0], i)
	s.fill(field.Value(unsafe.String(&t.value[0], len(t.value))), key, ix.perKeyMax)
	if cap(t.value) > scratchKept {
		t.value = nil
	}
}

// replace removes what only old has and adds what only new has; it says whether
// anything changed.
func (ix *index) replace(old, new *entrySet) (changed bool) {
	ix.count(old, -1)
	ix.count(new, +1)
	changed = old.truncated != new.truncated
	for i, j := 0, 0; i < len(old.list) || j < len(new.list); changed = true {
		switch {
		case j == len(new.list) || i < len(old.list) && old.list[i] < new.list[j]:
			ix.remove(old.list[i])
			i++
		case i == len(old.list) || new.list[j] < old.list[i]:
			ix.add(new.list[j])
			j++
		default:
			i++
			j++
			continue
		}
	}
	return changed
}

// count keeps the numbers of keys, by being told of each that goes (-1) or comes (+1).
func (ix *index) count(s *entrySet, by int) {
	if len(s.list) > 1 {
		ix.several += by
	}
	if s.truncated {
		ix.truncated += by
	}
}

func (ix *index) add(entry string) {
	entry = strings.Clone(entry)
	if _, there := ix.entries.Set(entry); there {
		panic(fmt.Sprintf("index %q: entry %x is there already", ix.definition.GetName(), entry))
	}
	ix.sum += ix.hash(entry)
}

func (ix *index) remove(entry string) {
	if _, there := ix.entries.Delete(entry); !there {
		panic(fmt.Sprintf("index %q: entry %x is not there", ix.definition.GetName(), entry))
	}
	ix.sum -= ix.hash(entry)
}
