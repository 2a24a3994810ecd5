package transport

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/messages"
)

// Each error is made where it is returned: callers may add to them.

func errEnded() *messages.Error {
	return messages.NewError(messages.Code_CODE_UNAVAILABLE, "the connection has ended")
}

func errClosedHere() *messages.Error {
	return messages.UnknownOutcome(messages.Code_CODE_CANCELLED, "the connection was closed on this side")
}

func errLost(err error) *messages.Error {
	e := messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "the connection was lost")
	e.Err = err
	return e
}

// endOf returns what Recv says once a stream was ended for this reason.
func endOf(reason *messages.ErrorDetail) error {
	if reason == nil {
		return errLost(nil)
	}
	return messages.ErrorFrom(reason)
}

func goodbye(reason *messages.ErrorDetail) *messages.ServerMessage {
	return &messages.ServerMessage{Message: &messages.ServerMessage_Goodbye{
		Goodbye: &messages.Goodbye{Reason: reason},
	}}
}

// codeOfStatus maps what gRPC itself may answer. A peer that says anything else
// is not one of our nodes.
func codeOfStatus(c codes.Code) messages.Code {
	switch c {
	case codes.Canceled:
		return messages.Code_CODE_CANCELLED
	case codes.DeadlineExceeded:
		return messages.Code_CODE_TIMEOUT
	case codes.ResourceExhausted:
		return messages.Code_CODE_TOO_LARGE
	case codes.Unauthenticated:
		return messages.Code_CODE_UNAUTHENTICATED
	case codes.PermissionDenied:
		return messages.Code_CODE_PERMISSION_DENIED
	case codes.Unimplemented:
		return messages.Code_CODE_UNSUPPORTED
	case codes.Internal, codes.InvalidArgument:
		return messages.Code_CODE_PROTOCOL
	default:
		return messages.Code_CODE_UNAVAILABLE
	}
}

// statusOf is the status that a stream ends with: the reason travels whole, so
// that it arrives even where the Goodbye did not.
func statusOf(reason *messages.ErrorDetail) error {
	if reason == nil {
		return nil
	}
	c := codes.Unavailable
	switch reason.GetCode() {
	case messages.Code_CODE_INVALID_ARGUMENT, messages.Code_CODE_PROTOCOL:
		c = codes.InvalidArgument
	case messages.Code_CODE_TOO_LARGE, messages.Code_CODE_OVERLOADED, messages.Code_CODE_SLOW_CONSUMER:
		c = codes.ResourceExhausted
	case messages.Code_CODE_TIMEOUT:
		c = codes.DeadlineExceeded
	case messages.Code_CODE_CANCELLED:
		c = codes.Canceled
	case messages.Code_CODE_UNAUTHENTICATED:
		c = codes.Unauthenticated
	case messages.Code_CODE_PERMISSION_DENIED:
		c = codes.PermissionDenied
	case messages.Code_CODE_UNSUPPORTED:
		c = codes.Unimplemented
	case messages.Code_CODE_INTERNAL:
		c = codes.Internal
	}
	st, err := status.New(c, messages.CodeName(reason.GetCode())+": "+reason.GetMessage()).WithDetails(reason)
	if err != nil {
		return status.Error(c, reason.GetMessage())
	}
	return st.Err()
}

// streamError says why a stream ended, from the error that gRPC gave.
func streamError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errLost(nil)
	}
	st, ok := status.FromError(err)
	if !ok {
		return errLost(err)
	}
	for _, d := range st.Details() {
		if reason, ok := d.(*messages.ErrorDetail); ok {
			return messages.ErrorFrom(reason)
		}
	}
	e := messages.UnknownOutcome(codeOfStatus(st.Code()), "the connection was lost")
	e.Err = err
	return e
}

// dialError says why no stream came about. Nothing was sent, so nothing was
// applied.
func dialError(ctx context.Context, endpoint string, err error) error {
	if ctx.Err() != nil {
		code := messages.Code_CODE_CANCELLED
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code = messages.Code_CODE_TIMEOUT
		}
		e := messages.NewError(code, "dial %s", endpoint)
		e.Err = ctx.Err()
		return e
	}
	if mapped, ok := streamError(err).(*messages.Error); ok {
		code := mapped.Code()
		if strings.Contains(err.Error(), "remote error: tls:") {
			// The node refuses the client's certificate: with TLS 1.3 it says so only after
			// the client's side of the handshake, in an alert.
			code = messages.Code_CODE_UNAUTHENTICATED
		}
		e := messages.NewError(code, "dial %s", endpoint)
		e.Err = err
		if m := mapped.Detail.GetMessage(); mapped.Err == nil && m != "" {
			e.Detail.Message += ": " + m
		}
		e.Detail.RetryAfterMs = mapped.Detail.GetRetryAfterMs()
		return e
	}
	return errEnded()
}
