package messages

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// This file and fastencode.go size and encode by hand what fastread.go decodes by
// hand. The size of what must be left to protobuf is slow.

// slow is the size of a message that has something in it which this file does not know.
const slow = -1

// CommandSize is proto.Size of a command.
func CommandSize(x *Command) int {
	if n := x.fastSize(); n >= 0 {
		return n
	}
	return proto.Size(x)
}

// AppendCommand appends an encoded command, as proto.MarshalAppend would.
func AppendCommand(b []byte, x *Command) ([]byte, error) {
	if x.fastSize() >= 0 {
		return x.fastAppend(b), nil
	}
	return proto.MarshalOptions{}.MarshalAppend(b, x)
}

// OperationSize is proto.Size of an operation.
func OperationSize(x *Operation) int {
	if n := x.fastSize(); n >= 0 {
		return n
	}
	return proto.Size(x)
}

// ResultSize is proto.Size of a result.
func ResultSize(x *Result) int {
	if n := x.fastSize(); n >= 0 {
		return n
	}
	return proto.Size(x)
}

// A tag of a field below 16 takes one byte, of those used here below 2048 two.
func sizeVarint(tagBytes int, v uint64) int {
	if v == 0 {
		return 0
	}
	return tagBytes + protowire.SizeVarint(v)
}

func sizeBytes(tagBytes, n int) int {
	if n == 0 {
		return 0
	}
	return sizeNested(tagBytes, n)
}

func sizeNested(tagBytes, n int) int { return tagBytes + protowire.SizeVarint(uint64(n)) + n }

func sizeBool(v bool) int {
	if v {
		return 2
	}
	return 0
}

func appendVarint(b []byte, tag byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, tag<<3|varintField), v)
}

func appendBool(b []byte, tag byte, v bool) []byte {
	if !v {
		return b
	}
	return append(b, tag<<3|varintField, 1)
}

func appendBytes(b []byte, tag byte, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return append(protowire.AppendVarint(append(b, tag<<3|bytesField), uint64(len(v))), v...)
}

func appendText(b []byte, tag byte, v string) []byte {
	if v == "" {
		return b
	}
	return append(protowire.AppendVarint(append(b, tag<<3|bytesField), uint64(len(v))), v...)
}

// appendHead begins a nested message of n bytes.
func appendHead(b []byte, tag uint64, n int) []byte {
	return protowire.AppendVarint(protowire.AppendVarint(b, tag<<3|bytesField), uint64(n))
}

func (x *Put) fastSize() int {
	if x == nil || len(x.Metadata) > 0 || len(x.unknownFields) > 0 || !utf8.ValidString(x.ContentType) {
		return slow
	}
	return sizeBytes(1, len(x.Key)) + sizeBytes(1, len(x.Value)) + sizeVarint(1, x.LeaseId) + sizeVarint(1, uint64(x.TtlMs)) +
		sizeBytes(1, len(x.ContentType)) + sizeBool(x.PrevKv) + sizeBool(x.IgnoreValue) + sizeBool(x.IgnoreLease) +
		sizeBool(x.MoveLease)
}

func (x *Put) fastAppend(b []byte) []byte {
	b = appendBytes(b, 1, x.Key)
	b = appendBytes(b, 2, x.Value)
	b = appendVarint(b, 3, x.LeaseId)
	b = appendVarint(b, 4, uint64(x.TtlMs))
	b = appendText(b, 5, x.ContentType)
	b = appendBool(b, 7, x.PrevKv)
	b = appendBool(b, 8, x.IgnoreValue)
	b = appendBool(b, 9, x.IgnoreLease)
	return appendBool(b, 10, x.MoveLease)
}

// fast is a message that this package sizes and encodes by hand.
type fast interface {
	fastSize() int
	fastAppend([]byte) []byte
}

// fastOp returns the operation and its field; nil for one that is left to protobuf.
func (x *Command) fastOp() (op fast, tag uint64) {
	switch o := x.GetOp().(type) {
	case *Command_Put:
		return o.Put, 16
	case *Command_Txn:
		return o.Txn, 20
	case *Command_GrantLease:
		return o.GrantLease, 24
	case *Command_KeepAliveLease:
		return o.KeepAliveLease, 25
	}
	return nil, 0
}

func (x *Write) fastOp() (op fast, tag uint64) {
	switch o := x.GetOp().(type) {
	case *Write_Put:
		return o.Put, 16
	case *Write_Txn:
		return o.Txn, 20
	case *Write_GrantLease:
		return o.GrantLease, 24
	case *Write_KeepAliveLease:
		return o.KeepAliveLease, 25
	}
	return nil, 0
}

func (x *Command) fastSize() int {
	op, _ := x.fastOp()
	if op == nil || x.Audit != nil || len(x.unknownFields) > 0 || !utf8.ValidString(x.IdempotencyKey) || !utf8.ValidString(x.Principal) {
		return slow
	}
	n := op.fastSize()
	if n == slow {
		return slow
	}
	return sizeVarint(1, uint64(x.StampMs)) + sizeVarint(1, x.SessionId) + sizeVarint(1, x.Sequence) + sizeVarint(1, x.Acknowledged) +
		sizeBytes(1, len(x.IdempotencyKey)) + sizeBytes(1, len(x.RequestHash)) + sizeBytes(1, len(x.Principal)) +
		sizeVarint(1, x.UserId) + sizeBool(x.Trusted) + sizeNested(2, n)
}

func (x *Command) fastAppend(b []byte) []byte {
	op, tag := x.fastOp()
	b = appendVarint(b, 1, uint64(x.StampMs))
	b = appendVarint(b, 2, x.SessionId)
	b = appendVarint(b, 3, x.Sequence)
	b = appendVarint(b, 4, x.Acknowledged)
	b = appendText(b, 5, x.IdempotencyKey)
	b = appendBytes(b, 6, x.RequestHash)
	b = appendText(b, 7, x.Principal)
	b = appendVarint(b, 8, x.UserId)
	b = appendBool(b, 9, x.Trusted)
	return op.fastAppend(appendHead(b, tag, op.fastSize()))
}

func (x *Write) fastSize() int {
	op, _ := x.fastOp()
	if op == nil || len(x.unknownFields) > 0 || !utf8.ValidString(x.IdempotencyKey) {
		return slow
	}
	n := op.fastSize()
	if n == slow {
		return slow
	}
	return sizeVarint(1, x.SessionId) + sizeVarint(1, x.Sequence) + sizeVarint(1, x.Acknowledged) +
		sizeBytes(1, len(x.IdempotencyKey)) + sizeVarint(1, x.Incarnation) + sizeNested(2, n)
}

func (x *Write) fastAppend(b []byte) []byte {
	op, tag := x.fastOp()
	b = appendVarint(b, 1, x.SessionId)
	b = appendVarint(b, 2, x.Sequence)
	b = appendVarint(b, 3, x.Acknowledged)
	b = appendText(b, 4, x.IdempotencyKey)
	b = appendVarint(b, 5, x.Incarnation)
	return op.fastAppend(appendHead(b, tag, op.fastSize()))
}

func (x *Operation) fastSize() int {
	if x == nil || len(x.unknownFields) > 0 {
		return slow
	}
	n := slow
	switch o := x.GetOperation().(type) {
	case *Operation_Write:
		n = o.Write.fastSize()
	case *Operation_Query:
		n = o.Query.fastSize()
	}
	if n == slow {
		return slow
	}
	return sizeNested(1, n)
}

func (x *Operation) fastAppend(b []byte) []byte {
	if q, ok := x.Operation.(*Operation_Query); ok {
		return q.Query.fastAppend(appendHead(b, 2, q.Query.fastSize()))
	}
	w := x.Operation.(*Operation_Write).Write
	return w.fastAppend(appendHead(b, 1, w.fastSize()))
}

func (x *Query) fastSize() int {
	g, ok := x.GetQuery().(*Query_Get)
	if !ok || g.Get == nil || len(x.unknownFields) > 0 || len(g.Get.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, uint64(x.Consistency)) + sizeVarint(1, x.MinRevision) + sizeNested(2, g.Get.fastSize())
}

func (x *Query) fastAppend(b []byte) []byte {
	g := x.Query.(*Query_Get).Get
	b = appendVarint(b, 1, uint64(x.Consistency))
	b = appendVarint(b, 2, x.MinRevision)
	b = appendHead(b, 16, g.fastSize())
	return appendVarint(appendBytes(b, 1, g.Key), 2, g.Revision)
}

func (x *GetRequest) fastSize() int { return sizeBytes(1, len(x.Key)) + sizeVarint(1, x.Revision) }
