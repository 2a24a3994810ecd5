package transport

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/concord-kv/concord/messages"
)

// BatchSender is a ServerStream that encodes what it sends. It sends the shared part of
// a batch as it was encoded once, for all the streams that the batch goes to.
type BatchSender interface {
	// SendBatch is Send of b.For(ids).
	SendBatch(b *messages.SharedBatch, ids []uint64) error
}

// SendBatch implements BatchSender.
func (s *serverStream) SendBatch(b *messages.SharedBatch, ids []uint64) error {
	head, body, err := b.Encode(ids)
	if err != nil {
		e := messages.NewError(messages.Code_CODE_INTERNAL, "a batch cannot be encoded")
		e.Err = err
		return e
	}
	return s.sendAny(&encoded{head, body})
}

// encoded is a ServerMessage in two parts; the second is shared and read only.
type encoded struct{ head, body []byte }

// serverCodec is the codec of messages, which leaves alone what is encoded already.
type serverCodec struct{ encoding.CodecV2 }

func newServerCodec() encoding.CodecV2 { return serverCodec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c serverCodec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(*encoded); ok {
		// A SliceBuffer is not pooled: freeing it leaves the shared bytes to the others.
		return mem.BufferSlice{mem.SliceBuffer(e.head), mem.SliceBuffer(e.body)}, nil
	}
	return c.CodecV2.Marshal(v)
}
