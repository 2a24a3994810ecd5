package remoting

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason is why something was refused.
type Reason uint8

const (
	// The stream ends:
	RefusedUnary         Reason = iota // any unary call
	RefusedMethod                      // a stream that is not Receive
	RefusedCertificate                 // it does not name the address that is declared
	RefusedSelf                        // the declared address is our own
	RefusedStreams                     // too many streams of one peer
	RefusedHandshake                   // no connect request in time
	RefusedFirstMessage                // the first message is no connect request of a server
	RefusedSecondConnect               // connected already
	RefusedMessageKind                 // neither connect request nor batch
	RefusedOversize                    // larger than the receive limit
	RefusedBatchSize                   // too many envelopes, names or ids, or one too long
	RefusedSerializer                  // any but protobuf
	RefusedTypeIndex
	RefusedTypeName // not one of the session protocol's, or not in this direction
	RefusedTargetIndex
	RefusedTarget // no session of this peer
	RefusedSenderIndex
	RefusedSender  // not of the declared address, or missing where one must answer
	RefusedPayload // bytes that are not the message they claim to be
	RefusedPanic   // a defect of ours

	// The connection is not taken:
	RefusedConnections // too many
	RefusedTLS         // no certificate, or none that we accept
	RefusedDialled     // where we dialled, another one answered

	// The message is dropped and the stream goes on:
	DroppedStale      // for a session or actor that has ended
	DroppedDeadLetter // the other side's actor has ended
	DroppedSession    // too many sessions; answered with Goodbye
	DroppedFull       // the peer does not read what it asked for

	reasons
)

var reasonNames = [reasons]string{
	"unary", "method", "certificate", "self", "streams", "handshake", "first_message", "second_connect",
	"message_kind", "oversize", "batch_size", "serializer", "type_index", "type_name", "target_index",
	"target", "sender_index", "sender", "payload", "panic",
	"connections", "tls", "dialled",
	"stale", "dead_letter", "session", "full",
}

// String returns the reason as metrics name it.
func (r Reason) String() string {
	if r >= reasons {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return reasonNames[r]
}

// counters count refusals.
type counters [reasons]atomic.Uint64

func (c *counters) add(r Reason) { c[r].Add(1) }

// refusal ends a stream. It tells the peer no more than the reason's name.
type refusal struct{ reason Reason }

func (r refusal) Error() string { return "remoting: refused: " + r.reason.String() }

// GRPCStatus is what the peer sees.
func (r refusal) GRPCStatus() *status.Status {
	code := codes.InvalidArgument
	switch r.reason {
	case RefusedUnary, RefusedMethod, RefusedCertificate, RefusedSelf, RefusedTarget, RefusedSender:
		code = codes.PermissionDenied
	case RefusedStreams, RefusedOversize:
		code = codes.ResourceExhausted
	case RefusedHandshake:
		code = codes.DeadlineExceeded
	case RefusedPanic:
		code = codes.Internal
	}
	return status.New(code, r.Error())
}
