package messages

import (
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// EncodedSize returns how many bytes AppendEncoded appends for a message; false for one
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

// AppendEncoded appends a message of which EncodedSize has given the size, and which
// has not changed since.
func AppendEncoded(b []byte, m any) []byte {
	switch m := m.(type) {
	case *ClientMessage:
		return m.GetFrame().fastAppend(appendHead(b, 2, m.GetFrame().fastSize()))
	case *ServerMessage:
		return m.GetReplies().fastAppend(appendHead(b, 2, m.GetReplies().fastSize()))
	case *PeerMessage:
		if f := m.GetForward(); f != nil {
			return f.fastAppend(appendHead(b, 2, f.fastSize()))
		}
		return m.GetForwarded().fastAppend(appendHead(b, 3, m.GetForwarded().fastSize()))
	}
	panic("messages: not sized")
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

func appendList[M fast](b []byte, tag uint64, list []M) []byte {
	for _, m := range list {
		b = m.fastAppend(appendHead(b, tag, m.fastSize()))
	}
	return b
}

func (x *Frame) fastSize() int {
	list := sizeList(x.GetOperations())
	if x == nil || list == slow || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.ClientEpoch) + sizeVarint(1, x.FirstCall) + sizeVarint(1, uint64(x.TimeoutMs)) + list
}

func (x *Frame) fastAppend(b []byte) []byte {
	b = appendVarint(b, 1, x.ClientEpoch)
	b = appendVarint(b, 2, x.FirstCall)
	b = appendVarint(b, 3, uint64(x.TimeoutMs))
	return appendList(b, 4, x.Operations)
}

func (x *Replies) fastSize() int {
	list := sizeList(x.GetReplies())
	if x == nil || list == slow || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.ClientEpoch) + list
}

func (x *Replies) fastAppend(b []byte) []byte {
	return appendList(appendVarint(b, 1, x.ClientEpoch), 2, x.Replies)
}

func (x *ForwardRequest) fastSize() int {
	list := sizeList(x.GetCommands())
	if x == nil || list == slow || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.Call) + sizeVarint(1, uint64(x.TimeoutMs)) + list
}

func (x *ForwardRequest) fastAppend(b []byte) []byte {
	b = appendVarint(b, 1, x.Call)
	b = appendVarint(b, 2, uint64(x.TimeoutMs))
	return appendList(b, 3, x.Commands)
}

func (x *ForwardReply) fastSize() int {
	list := sizeList(x.GetResults())
	if x == nil || list == slow || len(x.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, x.Call) + sizeVarint(1, uint64(x.First)) + list
}

func (x *ForwardReply) fastAppend(b []byte) []byte {
	b = appendVarint(b, 1, x.Call)
	b = appendVarint(b, 2, uint64(x.First))
	return appendList(b, 3, x.Results)
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

func (x *Reply) fastAppend(b []byte) []byte {
	b = appendVarint(b, 1, x.Call)
	if q, ok := x.Reply.(*Reply_Query); ok {
		return q.Query.fastAppend(appendHead(b, 4, q.Query.fastSize()))
	}
	r := x.Reply.(*Reply_Result).Result
	return r.fastAppend(appendHead(b, 3, r.fastSize()))
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

func (x *Result) fastAppend(b []byte) []byte {
	op, tag := x.fastOp()
	b = appendBool(appendVarint(b, 1, x.Revision), 3, x.Replayed)
	return op.fastAppend(appendHead(b, tag, op.fastSize()))
}

// Without the record that was replaced.
func (x *PutResult) fastSize() int {
	if x == nil || x.Prev != nil || len(x.unknownFields) > 0 {
		return slow
	}
	return 0
}

func (x *PutResult) fastAppend(b []byte) []byte { return b }

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

func (x *QueryReply) fastAppend(b []byte) []byte {
	op, tag := x.fastOp()
	b = appendVarint(b, 1, x.Revision)
	b = appendVarint(b, 2, x.CompactRevision)
	b = appendVarint(b, 3, x.LeaderSilentMs)
	return op.fastAppend(appendHead(b, tag, op.fastSize()))
}

// Of a record or of none.
func (x *GetReply) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	if x.Record == nil {
		return 0
	}
	n := x.Record.fastSize()
	if n == slow {
		return slow
	}
	return sizeNested(1, n)
}

func (x *GetReply) fastAppend(b []byte) []byte {
	if x.Record == nil {
		return b
	}
	return x.Record.fastAppend(appendHead(b, 1, x.Record.fastSize()))
}

func (x *Record) fastSize() int {
	if x == nil || len(x.Metadata) > 0 || x.RemainingTtlMs != nil || x.ExpiresAtUnixMs != nil || len(x.unknownFields) > 0 || !utf8.ValidString(x.ContentType) {
		return slow
	}
	return sizeBytes(1, len(x.Key)) + sizeBytes(1, len(x.Value)) + sizeVarint(1, x.CreateRevision) + sizeVarint(1, x.ModRevision) +
		sizeVarint(1, x.Version) + sizeVarint(1, x.LeaseId) + sizeBytes(1, len(x.ContentType))
}

func (x *Record) fastAppend(b []byte) []byte {
	b = appendBytes(b, 1, x.Key)
	b = appendBytes(b, 2, x.Value)
	b = appendVarint(b, 3, x.CreateRevision)
	b = appendVarint(b, 4, x.ModRevision)
	b = appendVarint(b, 5, x.Version)
	b = appendVarint(b, 6, x.LeaseId)
	return appendText(b, 7, x.ContentType)
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
