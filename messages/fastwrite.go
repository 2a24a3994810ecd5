package messages

import (
	"slices"
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
	if n := x.fastSize(); n >= 0 {
		b = slices.Grow(b, n)
		b = b[:len(b)+n]
		x.fastWrite(b, len(b))
		return b, nil
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

func (x *Put) fastSize() int {
	if x == nil || len(x.Metadata) > 0 || len(x.unknownFields) > 0 || !utf8.ValidString(x.ContentType) {
		return slow
	}
	return sizeBytes(1, len(x.Key)) + sizeBytes(1, len(x.Value)) + sizeVarint(1, x.LeaseId) + sizeVarint(1, uint64(x.TtlMs)) +
		sizeBytes(1, len(x.ContentType)) + sizeBool(x.PrevKv) + sizeBool(x.IgnoreValue) + sizeBool(x.IgnoreLease) +
		sizeBool(x.MoveLease)
}

func (x *Put) fastWrite(b []byte, at int) int {
	at = writeBool(b, at, 10, x.MoveLease)
	at = writeBool(b, at, 9, x.IgnoreLease)
	at = writeBool(b, at, 8, x.IgnoreValue)
	at = writeBool(b, at, 7, x.PrevKv)
	at = writeBytes(b, at, 5, x.ContentType)
	at = writeVarint(b, at, 4, uint64(x.TtlMs))
	at = writeVarint(b, at, 3, x.LeaseId)
	at = writeBytes(b, at, 2, x.Value)
	return writeBytes(b, at, 1, x.Key)
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
	case *Command_ExpireLeases:
		return o.ExpireLeases, 66
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

func (x *Command) fastWrite(b []byte, at int) int {
	op, tag := x.fastOp()
	at = writeNested(b, at, tag, op)
	at = writeBool(b, at, 9, x.Trusted)
	at = writeVarint(b, at, 8, x.UserId)
	at = writeBytes(b, at, 7, x.Principal)
	at = writeBytes(b, at, 6, x.RequestHash)
	at = writeBytes(b, at, 5, x.IdempotencyKey)
	at = writeVarint(b, at, 4, x.Acknowledged)
	at = writeVarint(b, at, 3, x.Sequence)
	at = writeVarint(b, at, 2, x.SessionId)
	return writeVarint(b, at, 1, uint64(x.StampMs))
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

func (x *Write) fastWrite(b []byte, at int) int {
	op, tag := x.fastOp()
	at = writeNested(b, at, tag, op)
	at = writeVarint(b, at, 5, x.Incarnation)
	at = writeBytes(b, at, 4, x.IdempotencyKey)
	at = writeVarint(b, at, 3, x.Acknowledged)
	at = writeVarint(b, at, 2, x.Sequence)
	return writeVarint(b, at, 1, x.SessionId)
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

func (x *Operation) fastWrite(b []byte, at int) int {
	if q, ok := x.Operation.(*Operation_Query); ok {
		return writeNested(b, at, 2, q.Query)
	}
	return writeNested(b, at, 1, x.Operation.(*Operation_Write).Write)
}

func (x *Query) fastSize() int {
	g, ok := x.GetQuery().(*Query_Get)
	if !ok || g.Get == nil || len(x.unknownFields) > 0 || len(g.Get.unknownFields) > 0 {
		return slow
	}
	return sizeVarint(1, uint64(x.Consistency)) + sizeVarint(1, x.MinRevision) + sizeNested(2, g.Get.fastSize())
}

func (x *Query) fastWrite(b []byte, at int) int {
	at = writeNested(b, at, 16, x.Query.(*Query_Get).Get)
	at = writeVarint(b, at, 2, x.MinRevision)
	return writeVarint(b, at, 1, uint64(x.Consistency))
}

func (x *GetRequest) fastSize() int { return sizeBytes(1, len(x.Key)) + sizeVarint(1, x.Revision) }

func (x *GetRequest) fastWrite(b []byte, at int) int {
	return writeBytes(b, writeVarint(b, at, 2, x.Revision), 1, x.Key)
}
