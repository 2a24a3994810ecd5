package watch

import (
	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/store"
)

// eventOverheadBytes is more than the encoding of one event adds to its key,
// value, content type and metadata, its previous record not counted.
const eventOverheadBytes = 96

// shared is one event on its way to many watchers. What it is sent as is made once for
// each variant and shared: read only from then on.
type shared struct {
	event store.Event
	at    protocol.Position
	typ   messages.EventType
	// one is the fragment of the event alone.
	one    [variants]*fragment
	credit [variants]int64
}

func (s *shared) reset(e store.Event) {
	s.event = e
	s.at = protocol.Position{Revision: e.Rec.Mod(), Op: e.Rec.OpIndex()}
	s.typ = messages.EventType_EVENT_TYPE_PUT
	if e.Rec.Tombstone() {
		s.typ = messages.EventType_EVENT_TYPE_DELETE
	}
	clear(s.one[:])
}

// before returns the position right before the event.
func (s *shared) before() protocol.Position {
	if s.at.Op > 0 {
		return protocol.Position{Revision: s.at.Revision, Op: s.at.Op - 1}
	}
	return protocol.EndOf(s.at.Revision - 1)
}

// as makes the event as variant v carries it, if that has not been done.
func (s *shared) as(v variant) *fragment {
	if s.one[v] == nil {
		e := s.event.Proto(v&keysOnly != 0, v&withPrev != 0)
		s.one[v] = &fragment{event: e, at: s.at, n: 1, bytes: recordBytes(e.Record) + recordBytes(e.Prev)}
		s.credit[v] = messages.CreditBytes(e)
	}
	return s.one[v]
}

// recordBytes bounds the encoded size of a record from above, cheaply.
func recordBytes(r *messages.Record) int64 {
	if r == nil {
		return 0
	}
	n := eventOverheadBytes + len(r.Key) + len(r.Value) + len(r.ContentType)
	for _, m := range r.Metadata {
		n += len(m.Name) + len(m.Value) + 16
	}
	return int64(n)
}
