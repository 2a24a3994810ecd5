package remoting

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// batchWriter turns queued messages into protoactor batches. Its memory is used
// again: gRPC has encoded a batch when SendMsg returns.
type batchWriter struct {
	own       string
	items     []outgoing
	batch     remote.MessageBatch
	envelopes []remote.MessageEnvelope
	pids      []actor.PID
	data      []byte
}

func (w *batchWriter) write(stream grpc.ClientStream) error {
	n := len(w.items)
	if cap(w.envelopes) < batchMessagesMax {
		w.envelopes = make([]remote.MessageEnvelope, batchMessagesMax)
		w.pids = make([]actor.PID, batchMessagesMax)
	}
	b := &w.batch
	b.TypeNames, b.Targets, b.Senders, b.Envelopes = b.TypeNames[:0], b.Targets[:0], b.Senders[:0], b.Envelopes[:0]
	if cap(w.data) > 2*batchBytesMax {
		w.data = nil // one large message must not hold its memory
	}
	w.data = w.data[:0]
	for i := range n {
		o := &w.items[i]
		start := len(w.data)
		var err error
		if w.data, err = (proto.MarshalOptions{}).MarshalAppend(w.data, o.message); err != nil {
			return err // invalid UTF-8 in a message of ours
		}
		e := &w.envelopes[i]
		e.TypeId, b.TypeNames = indexOf(b.TypeNames, nameOfMessage(o.message))
		e.Target, b.Targets = indexOf(b.Targets, o.target)
		e.TargetRequestId = o.requestID
		e.Sender = w.senderIndex(o.sender)
		e.MessageData = w.data[start:len(w.data):len(w.data)]
		b.Envelopes = append(b.Envelopes, e)
	}
	clear(w.items)
	return stream.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: b}})
}

// senderIndex returns one more than the index of the sender, or 0 for none.
func (w *batchWriter) senderIndex(id string) int32 {
	if id == "" {
		return 0
	}
	for i, pid := range w.batch.Senders {
		if pid.Id == id {
			return int32(i) + 1
		}
	}
	pid := &w.pids[len(w.batch.Senders)]
	pid.Address, pid.Id = w.own, id
	w.batch.Senders = append(w.batch.Senders, pid)
	return int32(len(w.batch.Senders))
}

func indexOf(list []string, s string) (int32, []string) {
	for i := range list {
		if list[i] == s {
			return int32(i), list
		}
	}
	return int32(len(list)), append(list, s)
}
