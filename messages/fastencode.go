package messages

import (
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// EncodedSize returns how many bytes Encode makes of a message; false for one
// that must be left to protobuf. m is a *ClientMessage, *ServerMessage or *PeerMessage;
// anything else is left to it too.
func EncodedSize(m any) (int, bool) {
	n := slow
	switch m := m.(type) {
	case *ClientMessage:
		if f, ok := m.GetMessage().(*ClientMessage_Frame); ok && len(m.unknownFields) == 0 {
			n = f.Frame.fastSize()
		}
	case *ServerMessage:
		if r, ok := m.GetMessage().(*ServerMessage_Replies); ok && len(m.unknownFields) == 0 {
			n = r.Replies.fastSize()
		}
	case *PeerMessage:
		if len(m.unknownFields) == 0 {
			switch p := m.GetMessage().(type) {
			case *PeerMessage_Forward:
				n = p.Forward.fastSize()
			case *PeerMessage_Forwarded:
				n = p.Forwarded.fastSize()
			}
		}
	}
	if n == slow {
		return 0, false
	}
	return sizeNested(1, n), true
}

// Encode encodes a message into b, which is as long as EncodedSize has said. The message
// has not changed since.
func Encode(b []byte, m any) {
	at := len(b)
	switch m := m.(type) {
	case *ClientMessage:
		at = writeNested(b, at, 2, m.GetFrame())
	case *ServerMessage:
		at = writeNested(b, at, 2, m.GetReplies())
	case *PeerMessage:
		if f := m.GetForward(); f != nil {
			at = writeNested(b, at, 2, f)
		} else {
			at = writeNested(b, at, 3, m.GetForwarded())
		}
	}
	if at != 0 {
		panic("messages: a message that is not as large as it was")
	}
}

// sizeList adds up the sizes of the messages of a repeated field below 16.
func sizeList[M interface{ fastSize() int }](list []M) int {
	total := 0
	for _, m := range list {
		n := m.fastSize()
		if n == slow {
			return slow
		}
		total += sizeNested(1, n)
	}
	return total
}

func (x *Frame) fastSize() int {
	list := sizeList(x.GetOperations())
	if x == nil || list == slow || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.ClientEpoch) + sizeVarint(1, x.FirstCall) + sizeVarint(1, uint64(x.TimeoutMs)) + list
}

func (x *Frame) fastWrite(b []byte, at int) int {
	at = writeList(b, at, 4, x.Operations)
	at = writeVarint(b, at, 3, uint64(x.TimeoutMs))
	at = writeVarint(b, at, 2, x.FirstCall)
	return writeVarint(b, at, 1, x.ClientEpoch)
}

func (x *Replies) fastSize() int {
	list := sizeList(x.GetReplies())
	if x == nil || list == slow || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.ClientEpoch) + list
}

func (x *Replies) fastWrite(b []byte, at int) int {
	return writeVarint(b, writeList(b, at, 2, x.Replies), 1, x.ClientEpoch)
}

func (x *ForwardRequest) fastSize() int {
	list := sizeList(x.GetCommands())
	if x == nil || list == slow || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.Call) + sizeVarint(1, uint64(x.TimeoutMs)) + list
}

func (x *ForwardRequest) fastWrite(b []byte, at int) int {
	at = writeList(b, at, 3, x.Commands)
	at = writeVarint(b, at, 2, uint64(x.TimeoutMs))
	return writeVarint(b, at, 1, x.Call)
}

func (x *ForwardReply) fastSize() int {
	list := sizeList(x.GetResults())
	if x == nil || list == slow || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.Call) + sizeVarint(1, uint64(x.First)) + list
}

func (x *ForwardReply) fastWrite(b []byte, at int) int {
	at = writeList(b, at, 3, x.Results)
	at = writeVarint(b, at, 2, uint64(x.First))
	return writeVarint(b, at, 1, x.Call)
}

func (x *Reply) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	n := slow
	switch r := x.Reply.(type) {
	case *Reply_Result:
		n = r.Result.fastSize()
	case *Reply_Query:
		n = r.Query.fastSize()
	}
	if n == slow {
		return slow
	}
	return sizeVarint(1, x.Call) + sizeNested(1, n)
}

func (x *Reply) fastWrite(b []byte, at int) int {
	if q, ok := x.Reply.(*Reply_Query); ok {
		at = writeNested(b, at, 4, q.Query)
	} else {
		at = writeNested(b, at, 3, x.Reply.(*Reply_Result).Result)
	}
	return writeVarint(b, at, 1, x.Call)
}

// What is answered to a put, a transaction, a grant or a keep-alive.
func (x *Result) fastOp() (op fast, tag uint64) {
	switch a := x.GetAnswer().(type) {
	case *Result_Put:
		return a.Put, 16
	case *Result_Txn:
		return a.Txn, 20
	case *Result_GrantLease:
		return a.GrantLease, 24
	case *Result_KeepAliveLease:
		return a.KeepAliveLease, 25
	}
	return nil, 0
}

func (x *Result) fastSize() int {
	op, _ := x.fastOp()
	if op == nil || x.Error != nil || len(x.unknownFields) > 0 {
		return slow
	}
	n := op.fastSize()
	if n == slow {
		return slow
	}
	return sizeVarint(1, x.Revision) + sizeBool(x.Replayed) + sizeNested(2, n)
}

func (x *Result) fastWrite(b []byte, at int) int {
	op, tag := x.fastOp()
	at = writeBool(b, writeNested(b, at, tag, op), 3, x.Replayed)
	return writeVarint(b, at, 1, x.Revision)
}

// Without the record that was replaced.
func (x *PutResult) fastSize() int {
	if x == nil || x.Prev != nil || len(x.unknownFields) > 0 {
		return slow
	}
	return 0
}

func (x *PutResult) fastWrite(b []byte, at int) int {
	return at
}

// The answer to a get or a list.
func (x *QueryReply) fastOp() (op fast, tag uint64) {
	switch r := x.GetReply().(type) {
	case *QueryReply_Get:
		return r.Get, 16
	case *QueryReply_List:
		return r.List, 18
	}
	return nil, 0
}

func (x *QueryReply) fastSize() int {
	op, _ := x.fastOp()
	if op == nil || len(x.unknownFields) > 0 {
		return slow
	}
	inner := op.fastSize()
	if inner == slow {
		return slow
	}
	return sizeVarint(1, x.Revision) + sizeVarint(1, x.CompactRevision) + sizeVarint(1, x.LeaderSilentMs) + sizeNested(2, inner)
}

func (x *QueryReply) fastWrite(b []byte, at int) int {
	op, tag := x.fastOp()
	at = writeNested(b, at, tag, op)
	at = writeVarint(b, at, 3, x.LeaderSilentMs)
	at = writeVarint(b, at, 2, x.CompactRevision)
	return writeVarint(b, at, 1, x.Revision)
}

// Of a record or of none. One that was encoded before, where it is stored, is among the
// unknown fields; they come last.
func (x *GetReply) fastSize() int {
	if x == nil {
		return slow
	}
	if x.Record == nil {
		return len(x.unknownFields)
	}
	n := x.Record.fastSize()
	if n == slow {
		return slow
	}
	return sizeNested(1, n) + len(x.unknownFields)
}

func (x *GetReply) fastWrite(b []byte, at int) int {
	at = writeUnknown(b, at, x.unknownFields)
	if x.Record == nil {
		return at
	}
	return writeNested(b, at, 1, x.Record)
}

func (x *Record) fastSize() int {
	if x == nil || len(x.Metadata) > 0 || x.RemainingTtlMs != nil || x.ExpiresAtUnixMs != nil || len(x.unknownFields) > 0 || !utf8.ValidString(x.ContentType) {
		return slow
	}
	return sizeBytes(1, len(x.Key)) + sizeBytes(1, len(x.Value)) + sizeVarint(1, x.CreateRevision) + sizeVarint(1, x.ModRevision) +
		sizeVarint(1, x.Version) + sizeVarint(1, x.LeaseId) + sizeBytes(1, len(x.ContentType))
}

func (x *Record) fastWrite(b []byte, at int) int {
	at = writeBytes(b, at, 7, x.ContentType)
	at = writeVarint(b, at, 6, x.LeaseId)
	at = writeVarint(b, at, 5, x.Version)
	at = writeVarint(b, at, 4, x.ModRevision)
	at = writeVarint(b, at, 3, x.CreateRevision)
	at = writeBytes(b, at, 2, x.Value)
	return writeBytes(b, at, 1, x.Key)
}

// MessageSize is proto.Size of a message.
func MessageSize(m proto.Message) int {
	n := slow
	switch m := m.(type) {
	case *Propose:
		if n = sizeList(m.GetCommands()); n != slow {
			n += sizeVarint(1, m.RequestId) + sizeVarint(1, uint64(m.TimeoutMs))
		}
	case *ForwardRequest:
		n = m.fastSize()
	case *QueryReply:
		n = m.fastSize()
	case *Txn:
		n = m.fastSize()
	default:
		if size, ok := EncodedSize(m); ok {
			n = size
		}
	}
	if n == slow {
		return proto.Size(m)
	}
	return n
}
