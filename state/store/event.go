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

// fromProto builds the record that a row of a snapshot describes. Unlike Make it
// refuses: ok is false when the row cannot be a record.
func fromProto(m *messages.Record, op uint32, cause messages.EventCause) (r Rec, ok bool) {
	metadata := encodedMetadataBytes(m.GetMetadata())
	for _, e := range m.GetMetadata() {
		if len(e.GetName()) > 1<<16-1 || len(e.GetValue()) > 1<<16-1 {
			return "", false
		}
	}
	switch {
	case len(m.GetKey()) == 0, len(m.GetKey()) > 1<<16-1, len(m.GetContentType()) > 1<<16-1, metadata > 1<<16-1:
		return "", false
	case op > 1<<16-1, cause < 0, cause > 255, m.GetModRevision() == 0, m.GetModRevision() > messages.RevisionMax:
		return "", false
	case m.GetCreateRevision() > m.GetModRevision(), m.GetVersion() == 0 && len(m.GetValue()) > 0:
		return "", false
	}
	return Make(Fields{
		KeyBytes: m.Key, ValueBytes: m.Value, ContentType: m.ContentType, Metadata: m.Metadata,
		Create: m.CreateRevision, Mod: m.ModRevision, Version: m.Version, Lease: m.LeaseId,
		OpIndex: op, Cause: cause, Tombstone: m.Version == 0,
	}), true
}
