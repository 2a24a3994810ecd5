package index

import "github.com/concord-kv/concord/messages"

// View is a frozen Table: immutable, for any number of goroutines. What its methods
// return shares the definitions, which must not be changed.
type View struct {
	indexes []*index // frozen, sorted by name
}

// View returns the table as it is now. The work is by the indexes that changed since
// the last view, not by their entries; without a change it is the same View.
func (t *Table) View() *View {
	if t.view != nil {
		return t.view
	}
	v := &View{indexes: make([]*index, len(t.indexes))}
	for i, ix := range t.indexes {
		if ix.frozen == nil {
			c := *ix
			c.entries = ix.entries.Copy()
			ix.frozen = &c
		}
		v.indexes[i] = ix.frozen
	}
	t.view = v
	return v
}

// List describes every index, by name.
func (v *View) List() []*messages.IndexInfo {
	infos := make([]*messages.IndexInfo, len(v.indexes))
	for i, ix := range v.indexes {
		infos[i] = ix.info()
	}
	return infos
}

// Info describes one index; CODE_INDEX_NOT_FOUND if there is none of that name.
func (v *View) Info(name string) (*messages.IndexInfo, *messages.Error) {
	at, exists := find(v.indexes, name)
	if !exists {
		return nil, notFound(name)
	}
	return v.indexes[at].info(), nil
}
