package messages

import (
	"crypto/sha256"

	"google.golang.org/protobuf/proto"
)

// CommandOf returns the command that a client's write asks for, without stamp and
// request hash; nil if the operation is missing or not known. It shares the
// operation with w.
func CommandOf(w *Write) *Command {
	c := &Command{
		SessionId:      w.GetSessionId(),
		Sequence:       w.GetSequence(),
		Acknowledged:   w.GetAcknowledged(),
		IdempotencyKey: w.GetIdempotencyKey(),
	}
	switch op := w.GetOp().(type) {
	case *Write_Put:
		c.Op = &Command_Put{Put: op.Put}
	case *Write_PutMany:
		c.Op = &Command_PutMany{PutMany: op.PutMany}
	case *Write_Delete:
		c.Op = &Command_Delete{Delete: op.Delete}
	case *Write_Touch:
		c.Op = &Command_Touch{Touch: op.Touch}
	case *Write_Txn:
		c.Op = &Command_Txn{Txn: op.Txn}
	case *Write_GrantLease:
		c.Op = &Command_GrantLease{GrantLease: op.GrantLease}
	case *Write_KeepAliveLease:
		c.Op = &Command_KeepAliveLease{KeepAliveLease: op.KeepAliveLease}
	case *Write_RevokeLease:
		c.Op = &Command_RevokeLease{RevokeLease: op.RevokeLease}
	case *Write_OpenSession:
		c.Op = &Command_OpenSession{OpenSession: op.OpenSession}
	case *Write_CloseSession:
		c.Op = &Command_CloseSession{CloseSession: op.CloseSession}
	case *Write_ResolveIdempotency:
		c.Op = &Command_ResolveIdempotency{ResolveIdempotency: op.ResolveIdempotency}
	case *Write_CreateIndex:
		c.Op = &Command_CreateIndex{CreateIndex: op.CreateIndex}
	case *Write_DropIndex:
		c.Op = &Command_DropIndex{DropIndex: op.DropIndex}
	case *Write_OpenCursor:
		c.Op = &Command_OpenCursor{OpenCursor: op.OpenCursor}
	case *Write_CheckpointCursor:
		c.Op = &Command_CheckpointCursor{CheckpointCursor: op.CheckpointCursor}
	case *Write_CloseCursor:
		c.Op = &Command_CloseCursor{CloseCursor: op.CloseCursor}
	case *Write_Compact:
		c.Op = &Command_Compact{Compact: op.Compact}
	case *Write_SetConfig:
		c.Op = &Command_SetConfig{SetConfig: op.SetConfig}
	case *Write_ChangeAuth:
		c.Op = &Command_ChangeAuth{ChangeAuth: op.ChangeAuth}
	default:
		return nil
	}
	return c
}

// RequestHash returns SHA-256 of what a client asked for, without the session's
// numbers: two requests with one idempotency key are the same request if and only
// if their hashes are equal.
func RequestHash(w *Write) ([]byte, error) {
	bare := &Write{Op: w.GetOp()}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}
