package state

import (
	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state/auth"
	"github.com/concord-kv/concord/state/store"
)

// shower turns records into what clients see. Those of one answer share memory: a
// large answer takes few pieces of it, however many records it has.
type shower struct {
	view *View
	now  Now
	// rights of whoever asks; nil: everything is shown.
	rights *auth.Rights
	shown  []shown // for the next records
	bytes  []byte  // for their keys and values
	count  int
	sum    uint64 // makes records read ahead; it has no meaning
}

type shown struct {
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
func (s *shower) records(list []store.Rec, keysOnly, latest bool) []*messages.Record {
	if len(list) == 0 {
		return nil
	}
	out := make([]*messages.Record, 0, len(list))
	for len(list) > 0 {
		group := list[:min(len(list), shownChunk)]
		list = list[len(group):]
		if !keysOnly {
			for _, r := range group {
				for at := 0; at < min(len(r), readAheadBytes); at += 64 {
					s.sum += uint64(r[at])
				}
			}
		}
		for _, r := range group {
			out = append(out, s.record(r, keysOnly, latest))
		}
	}
	return out
}

// readAheadBytes bounds what is read of a record ahead: a group of them must stay in
// the cache.
const readAheadBytes = 1 << 10

// record shows one record. latest says that it is of the latest state: only then has
// it time left.
func (s *shower) record(r store.Rec, keysOnly, latest bool) *messages.Record {
	if len(s.shown) == 0 {
		s.shown = make([]shown, min(1+s.count*2, shownChunk))
	}
	next := &s.shown[0]
	s.shown = s.shown[1:]
	s.count++
	p := &next.record
	s.copy(p, r.Key(), r.Value(), keysOnly)
	p.CreateRevision, p.ModRevision, p.Version, p.LeaseId = r.Create(), r.Mod(), r.Version(), r.Lease()
	p.ContentType, p.Metadata = r.ContentType(), r.Metadata()
	if !latest || p.LeaseId == 0 {
		return p
	}
	row, ok := s.view.leases.find(p.LeaseId)
	if !ok {
		return p
	}
	next.left = max(0, row.deadlineMs-s.clockMs())
	p.RemainingTtlMs = &next.left
	if s.now.WallMs != 0 {
		next.expiresAt = s.now.WallMs + next.left
		p.ExpiresAtUnixMs = &next.expiresAt
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
