package sim

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// The workload has indexes of one kind: by the number that JSON values have as g. What
// they must hold is read off the agreed history, by another reader of JSON.

// indexField is the field that indexes are by.
const indexField = "g"

var indexVerbs = []Verb{
	{"client note", "KEY VALUE GROUP", "writes a key with a JSON value, whose g is a number", operation(func(_ *Client, a args, op *Op) *messages.Operation {
		op.Kind, op.Value = OpPut, `{"g":`+a.word(2)+`,"v":"`+a.word(1)+`"}`
		return write(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{
			Key: []byte(op.Key), Value: []byte(op.Value), ContentType: "application/json",
		}}})
	})},
	{"client index", "NAME PREFIX", "makes an index by g", operation(func(_ *Client, a args, _ *Op) *messages.Operation {
		return write(&messages.Write{Op: &messages.Write_CreateIndex{CreateIndex: &messages.CreateIndex{Definition: &messages.IndexDefinition{
			Name: a.word(0), Prefix: []byte(a.word(1)), Extractor: &messages.Extractor{By: &messages.Extractor_Field{Field: indexField}},
		}}}})
	})},
	{"client unindex", "NAME", "drops an index", operation(func(_ *Client, a args, _ *Op) *messages.Operation {
		return write(&messages.Write{Op: &messages.Write_DropIndex{DropIndex: &messages.DropIndex{Name: a.word(0)}}})
	})},
	{"client lookup", "NAME [GROUP]", "finds keys by g", operation(func(_ *Client, a args, op *Op) *messages.Operation {
		q := &messages.IndexLookupRequest{Name: a.word(0), EqualJson: []byte(a.word(1)), Limit: messages.ListLimitMax}
		return query(&messages.Query{Query: &messages.Query_IndexLookup{IndexLookup: q}})
	})},
}

// checkIndexes holds the indexes of a node against the history (I3).
func (w *World) checkIndexes(n *Node, v *state.View) {
	list, err := v.Query(&messages.Query{Query: &messages.Query_IndexList{IndexList: &messages.IndexListRequest{}}}, state.Now{})
	if err != nil {
		w.failf("I3", "n%d: %v", n.id, err)
		return
	}
	for _, x := range list.GetIndexList().GetIndexes() {
		if x.Building {
			continue
		}
		found, err := v.Query(&messages.Query{Query: &messages.Query_IndexLookup{IndexLookup: &messages.IndexLookupRequest{
			Name: x.Definition.Name, Limit: messages.ListLimitMax, KeysOnly: true,
		}}}, state.Now{})
		if err != nil {
			w.failf("I3", "n%d: index %s is built and refuses: %v", n.id, x.Definition.Name, err)
			return
		}
		var got []string
		for _, r := range found.GetIndexLookup().GetRecords() {
			got = append(got, string(r.Key))
		}
		if want := w.truth.grouped(string(x.Definition.Prefix), v.Revision()); !slices.Equal(got, want) {
			w.failf("I3", "n%d: at revision %d index %s finds %v, by the history %v", n.id, v.Revision(), x.Definition.Name, got, want)
			return
		}
	}
}

// grouped returns the keys with a g, in order of it and then of the key.
func (t *truth) grouped(prefix string, revision uint64) (keys []string) {
	current := map[string]float64{}
	for _, events := range t.events[:min(revision, t.revision())] {
		for _, e := range events {
			key := e.Rec.Key()
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			delete(current, key)
			var value map[string]any
			if e.Rec.Tombstone() || !strings.HasPrefix(e.Rec.Value(), "{") || json.Unmarshal([]byte(e.Rec.Value()), &value) != nil {
				continue
			}
			if g, ok := value[indexField].(float64); ok {
				current[key] = g
			}
		}
	}
	for k := range current {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if current[a] != current[b] {
			return int(current[a]) - int(current[b])
		}
		return strings.Compare(a, b)
	})
	return keys
}
