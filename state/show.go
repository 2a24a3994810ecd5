package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
)

// shower turns records into what clients see. Those of one answer share memory: a
// large answer takes few pieces of it, however many records it has.
type shower struct {
	view *View
	now  Now
	// rights of whoever asks; nil: everything is shown.
	rights *auth.Rights
	// encodes: records of gets and lists are encoded, see QueryEncoded.
	encodes bool
	room    []shownMessage // for the next records
	bytes   []byte         // for their keys and values
	count   int
	sum     uint64 // makes records read ahead; it has no meaning
}

// shownMessage is a record's message with the places that its optional fields point at.
type shownMessage struct {
	record          messages.Record
	left, expiresAt int64
}

const (
	// The first piece is for one record, as most answers have one.
	shownChunk      = 64
	shownBytesChunk = 32 << 10
	// shownBytesOwn is from where a record's bytes have a piece for themselves.
	shownBytesOwn = shownBytesChunk / 4
)

// clockMs returns the best guess at the lease clock.
func (s *shower) clockMs() int64 { return max(s.now.ClockMs, s.view.clock.ms) }

// records shows many, nil for none. It reads them a group ahead, so that the waits for
// their memory, which is all over the heap, overlap.
func (s *shower) records(list []Shown, keysOnly bool) []*messages.Record {
	if len(list) == 0 {
		return nil
	}
	out := make([]*messages.Record, 0, len(list))
	for len(list) > 0 {
		group := list[:min(len(list), shownChunk)]
		list = list[len(group):]
		s.readAhead(group, keysOnly)
		for _, r := range group {
			out = append(out, s.record(r, keysOnly))
		}
	}
	return out
}

// readAhead looks at the records of a group, unless what is needed of them has been read.
func (s *shower) readAhead(group []Shown, keysOnly bool) {
	if keysOnly {
		return
	}
	for _, r := range group {
		for at := 0; at < min(r.Len(), readAheadBytes); at += 64 {
			s.sum += uint64(r.Rec[at])
		}
	}
}

// readAheadBytes bounds what is read of a record ahead: a group of them must stay in
// the cache.
const readAheadBytes = 1 << 10

// record copies one record into a message.
func (s *shower) record(r Shown, keysOnly bool) *messages.Record {
	if len(s.room) == 0 {
		s.room = make([]shownMessage, min(1+s.count*2, shownChunk))
	}
	next := &s.room[0]
	s.room = s.room[1:]
	s.count++
	p := &next.record
	s.copy(p, r.Key(), r.Value(), keysOnly)
	p.CreateRevision, p.ModRevision, p.Version, p.LeaseId = r.Create(), r.Mod(), r.Version(), r.Lease()
	p.ContentType, p.Metadata = r.ContentType(), r.Metadata()
	if r.HasTTL {
		next.left, next.expiresAt = r.RemainingTTLMs, r.ExpiresAtUnixMs
		p.RemainingTtlMs = &next.left
		if next.expiresAt != 0 {
			p.ExpiresAtUnixMs = &next.expiresAt
		}
	}
	return p
}

// copy gives p its own key and value: what callers do to it must not reach the
// store.
func (s *shower) copy(p *messages.Record, key, value string, keysOnly bool) {
	if keysOnly {
		value = ""
	}
	n := len(key) + len(value)
	b := s.bytes
	switch {
	case len(b) >= n:
		s.bytes = b[n:]
	case s.count <= 2 || n >= shownBytesOwn:
		b = make([]byte, n)
	default:
		b = make([]byte, shownBytesChunk)
		s.bytes = b[n:]
	}
	k := copy(b, key)
	copy(b[k:], value)
	p.Key = b[:k:k]
	if !keysOnly {
		p.Value = b[k:n:n]
	}
}
