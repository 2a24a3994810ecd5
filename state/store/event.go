package store

import "github.com/concord-kv/concord/messages"

// Event is one change of one key. Rec.Mod and Rec.OpIndex are its id. Prev is the
// record that it replaced; "" when the key did not exist or, for the record current
// at a floor of history, when what came before is gone.
type Event struct{ Rec, Prev Rec }

// Proto returns r as it travels, in new memory; without the value when keysOnly.
func (r Rec) Proto(keysOnly bool) *messages.Record {
	m := &messages.Record{
		Key:            []byte(r.Key()),
		CreateRevision: r.Create(),
		ModRevision:    r.Mod(),
		Version:        r.Version(),
		LeaseId:        r.Lease(),
		ContentType:    r.ContentType(),
		Metadata:       r.Metadata(),
	}
	if !keysOnly {
		m.Value = []byte(r.Value())
	}
	return m
}

// Proto returns e as it travels, in new memory. keysOnly leaves out values; prev
// adds the record that it replaced.
func (e Event) Proto(keysOnly, prev bool) *messages.Event {
	m := &messages.Event{
		Revision: e.Rec.Mod(),
		OpIndex:  e.Rec.OpIndex(),
		Type:     messages.EventType_EVENT_TYPE_PUT,
		Cause:    e.Rec.Cause(),
		Record:   e.Rec.Proto(keysOnly),
	}
	if e.Rec.Tombstone() {
		m.Type = messages.EventType_EVENT_TYPE_DELETE
	}
	if prev && e.Prev != "" {
		m.Prev = e.Prev.Proto(keysOnly)
	}
	return m
}
