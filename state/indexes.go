package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/index"
	"github.com/concord-kv/concord/state/store"
)

func (m *Machine) createIndex(r *messages.Result, c *messages.CreateIndex) *messages.Error {
	if most := m.config.GetIndexesMax(); uint64(m.indexes.Len()) >= most {
		return m.field(messages.NewError(messages.Code_CODE_INDEX_LIMIT, "%d indexes exist", most).WithLimit(most), "definition")
	}
	info, err := m.indexes.Create(c.GetDefinition(), m.config.GetIndexEntriesPerKeyMax())
	if err != nil {
		if err.Code() == messages.Code_CODE_INDEX_EXISTS {
			err = m.field(err, "definition.name")
		}
		return err
	}
	r.Answer = &messages.Result_Index{Index: &messages.IndexResult{Index: info}}
	return nil
}

func (m *Machine) dropIndex(r *messages.Result, d *messages.DropIndex) *messages.Error {
	info, err := m.indexes.Drop(d.GetName())
	if err != nil {
		return m.field(err, "name")
	}
	r.Answer = &messages.Result_Index{Index: &messages.IndexResult{Index: info}}
	return nil
}

// stepIndex advances a back-fill. A step that another one has overtaken does
// nothing, and its answer says how the index stands.
func (m *Machine) stepIndex(r *messages.Result, s *messages.StepIndex) *messages.Error {
	m.indexes.Step(s.GetName(), s.GetExpectedCursor(), messages.IndexStepKeysMax, func(lo, hi string, fn func(string, index.Content) bool) {
		m.kv.Ascend(lo, hi, func(rec store.Rec) bool { return fn(rec.Key(), contentOf(rec)) })
	})
	info, err := m.indexes.View().Info(s.GetName())
	if err != nil {
		return m.field(err, "name")
	}
	r.Answer = &messages.Result_Index{Index: &messages.IndexResult{Index: info}}
	return nil
}

// contentOf returns what indexes read of a record. It shares the record's memory.
func contentOf(r store.Rec) index.Content {
	if r == "" || r.Tombstone() {
		return index.Content{}
	}
	return index.Content{Present: true, ContentType: r.ContentType(), Value: r.Value()}
}
