package transport

import "github.com/concord-kv/concord/messages"

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
