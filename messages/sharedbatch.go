package messages

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// SharedBatch is a batch that many watches of many connections are sent. It is made
// once, and encoded once, by the first who needs it encoded; what differs, the ids of
// the watches, is a few bytes before it. Everything in it is read only once it is shared.
type SharedBatch struct {
	body WatchBatch // without ids

	once    sync.Once
	encoded []byte
	err     error
}

// NewSharedBatch returns a batch of these events. It owns what it is given.
func NewSharedBatch(events []*Event, to *Position, last, ready bool) *SharedBatch {
	return &SharedBatch{body: WatchBatch{Events: events, To: to, Last: last, Ready: ready}}
}

// Events returns the events; read only.
func (s *SharedBatch) Events() []*Event { return s.body.Events }

// To returns how far the batch brings a watch; read only.
func (s *SharedBatch) To() *Position { return s.body.To }

// For returns the batch as a message for these watches of one connection, of which there
// is at least one. It keeps ids.
func (s *SharedBatch) For(ids []uint64) *WatchBatch {
	return &WatchBatch{
		WatchId: ids[0], AlsoWatchIds: ids[1:],
		Events: s.body.Events, To: s.body.To, Last: s.body.Last, Ready: s.body.Ready,
	}
}

// Encode returns the encoding of a ServerMessage with the batch for these watches, in
// two parts to be sent one after the other. The second is shared: it must not be changed.
func (s *SharedBatch) Encode(ids []uint64) (head, body []byte, err error) {
	s.once.Do(func() { s.encoded, s.err = proto.Marshal(&s.body) })
	if s.err != nil {
		return nil, nil, s.err
	}
	also := 0
	for _, id := range ids[1:] {
		also += protowire.SizeVarint(id)
	}
	n := protowire.SizeTag(batchIDField) + protowire.SizeVarint(ids[0])
	if also > 0 {
		n += protowire.SizeTag(batchAlsoField) + protowire.SizeBytes(also)
	}
	head = make([]byte, 0, n+16)
	head = protowire.AppendTag(head, serverBatchField, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(n+len(s.encoded)))
	head = protowire.AppendTag(head, batchIDField, protowire.VarintType)
	head = protowire.AppendVarint(head, ids[0])
	if also > 0 {
		head = protowire.AppendTag(head, batchAlsoField, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(also))
		for _, id := range ids[1:] {
			head = protowire.AppendVarint(head, id)
		}
	}
	return head, s.encoded, nil
}

// The numbers of the fields that Encode writes itself, as session.proto has them.
const (
	serverBatchField = 3
	batchIDField     = 1
	batchAlsoField   = 6
)
