package transport

import (
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

// LeavingSender is a ServerStream that knows when what it was given has left the process.
// Send returns as soon as the transport has taken a message over, which it does for one of
// any size; until the client has room for it, it waits in this process's memory.
type LeavingSender interface {
	// SendLeaving is Send. left is called once the message takes no memory here any more:
	// from any goroutine, also before SendLeaving returns, and never when it fails before
	// the message was encoded.
	SendLeaving(m *messages.ServerMessage, left func()) error
}

// SendLeaving implements LeavingSender.
func (s *serverStream) SendLeaving(m *messages.ServerMessage, left func()) error {
	size, ok := messages.EncodedSize(m)
	if !ok || mem.IsBelowBufferPoolingThreshold(size) {
		err := s.sendAny(m)
		if err == nil {
			left()
		}
		return err
	}
	b := buffers.Get(size)
	messages.Encode(*b, m)
	return s.sendAny(&leaving{mem.NewBuffer(b, leavingPool{left})})
}

// leaving is an encoded message that tells when it has left.
type leaving struct{ body mem.Buffer }

// leavingPool gives a buffer back and tells that it has.
type leavingPool struct{ left func() }

// Get implements mem.BufferPool.
func (leavingPool) Get(n int) *[]byte { return buffers.Get(n) }

// Put implements mem.BufferPool.
func (p leavingPool) Put(b *[]byte) {
	buffers.Put(b)
	p.left()
}
