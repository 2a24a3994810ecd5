package index

import (
	"fmt"
	"strings"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/field"
)

// StepBytesMax ends a step: once the values that it has read add up to this, it
// stops, however many keys it may read. Otherwise ten thousand values of a mebibyte
// in one command would stop every keep-alive behind it.
const StepBytesMax = 4 << 20

// Ascend visits live records with lo <= key < hi in key order until fn returns
// false; hi "" is the end of the key space.
type Ascend func(lo, hi string, fn func(key string, c Content) bool)

// Step advances the back-fill of an index by up to keys keys, fewer when their values
// are large, and reports whether that was the last of them: the index is ready then.
// Where the index does not exist, is ready already, or has another cursor than
// expected, nothing happens and done is false. Ascend reads the records as they are
// now; they must be what Update was told of them.
func (t *Table) Step(name string, expectedCursor []byte, keys int, ascend Ascend) (done bool) {
	at, exists := t.find(name)
	if !exists {
		return false
	}
	ix := t.indexes[at]
	if !ix.building || ix.cursor != string(expectedCursor) || keys <= 0 {
		return false
	}
	lo := ix.prefix
	if ix.cursor != "" {
		lo = ix.cursor + "\x00"
	}
	t.paths = append(t.paths[:0], ix.path)
	none := &entrySet{}
	read, bytes, more, last := 0, 0, false, ""
	ascend(lo, prefixEnd(ix.prefix), func(key string, c Content) bool {
		if read == keys || bytes >= StepBytesMax {
			more = true
			return false
		}
		t.scan(c)
		t.fill(&t.new, 0, ix, key, c)
		ix.replace(none, &t.new)
		last = key
		read++
		bytes += len(c.Value)
		return true
	})
	if more {
		ix.cursor = strings.Clone(last) // its own memory: key may be part of a large record's
	} else {
		ix.building, ix.cursor = false, ""
	}
	t.changed(ix)
	return !more
}

// Steps lists the next step of every index that is building, by name.
func (t *Table) Steps() []*messages.StepIndex {
	var steps []*messages.StepIndex
	for _, ix := range t.indexes {
		if ix.building {
			steps = append(steps, &messages.StepIndex{Name: ix.definition.GetName(), ExpectedCursor: []byte(ix.cursor)})
		}
	}
	return steps
}

// Restore adds an index as a snapshot describes it, without entries: the caller
// follows with Update(key, Content{}, c) for every live record. Its error says why
// the description cannot be believed.
func (t *Table) Restore(info *messages.IndexInfo) error {
	if e := info.GetEngine(); e != field.Engine {
		return fmt.Errorf("index %q was made by extraction rules %d, this program has %d", info.GetDefinition().GetName(), e, field.Engine)
	}
	if len(info.GetCursor()) > 0 && !info.GetBuilding() {
		return fmt.Errorf("index %q is ready and has a cursor", info.GetDefinition().GetName())
	}
	if _, err := t.Create(info.GetDefinition(), info.GetEntriesPerKeyMax()); err != nil {
		return err
	}
	at, _ := t.find(info.GetDefinition().GetName())
	t.indexes[at].building, t.indexes[at].cursor = info.GetBuilding(), string(info.GetCursor())
	return nil
}

// prefixEnd returns the least key above every key with the prefix, "" if there is
// none.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
