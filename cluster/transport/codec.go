package transport

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/concord-kv/concord/messages"
)

// Codec returns the gRPC codec of Concord's streams, of clients and between nodes:
// protobuf on the wire. The messages of the hot paths are encoded and decoded by hand,
// and what is received may share one allocation, as messages.UnmarshalClientMessage and
// its like say.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

type codec struct{ encoding.CodecV2 }

// encoded is a ServerMessage in two parts; the second is shared and read only.
type encoded struct{ head, body []byte }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(*encoded); ok {
		// A SliceBuffer is not pooled: freeing it leaves the shared bytes to the others.
		return mem.BufferSlice{mem.SliceBuffer(e.head), mem.SliceBuffer(e.body)}, nil
	}
	if l, ok := v.(*leaving); ok {
		return mem.BufferSlice{l.body}, nil
	}
	size, ok := messages.EncodedSize(v)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	if mem.IsBelowBufferPoolingThreshold(size) {
		b := make([]byte, size)
		messages.Encode(b, v)
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	b := buffers.Get(size)
	messages.Encode(*b, v)
	return mem.BufferSlice{mem.NewBuffer(b, buffers)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *messages.ClientMessage:
		return messages.UnmarshalClientMessage(data.Materialize(), m)
	case *messages.PeerMessage:
		return messages.UnmarshalPeerMessage(data.Materialize(), m)
	case *messages.ServerMessage:
		b := data.MaterializeToBuffer(buffers)
		defer b.Free()
		return messages.UnmarshalServerMessage(b.ReadOnlyData(), m)
	}
	return c.CodecV2.Unmarshal(data, v)
}
