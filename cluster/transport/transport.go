// Package transport carries the session protocol between a client and a node: in
// process through a bounded pipe, or over the network as one gRPC stream. It
// moves whole messages in order and knows nothing of what they mean.
//
// A stream is one connection. Messages arrive in the order they were sent, each
// at most once, until the stream ends; what was under way when it ended may or
// may not have arrived. A message must not be changed once it was sent, nor once
// it was received: in process both sides hold the same one.
package transport

import (
	"context"

	"github.com/concord-kv/concord/messages"
)

// Kinds of streams, as in Peer.Kind.
const (
	KindGRPC      = "grpc"
	KindInProcess = "inproc"
	KindEtcd      = "etcd" // a client of the etcd endpoint, passed on in process
	KindRemote    = "remote"
)

// ClientStream is the client's end of a connection.
//
// Send may be called from several goroutines; Recv from one at a time; Close
// from any, at any time.
type ClientStream interface {
	// Send queues m, waiting while the node does not read. It fails with a
	// *messages.Error once the stream has ended: this message was then not sent,
	// while earlier ones may have been lost. Recv tells why the stream ended.
	Send(m *messages.ClientMessage) error
	// Recv waits for the next message. When the node ended the stream, what it had
	// sent before comes first, a Goodbye with its reason last, and then Recv fails.
	// Every failure is a *messages.Error and final; its outcome, unknown unless the
	// node said otherwise, is that of calls without an answer.
	Recv() (*messages.ServerMessage, error)
	// Close ends the stream without waiting. What was sent before still goes out
	// if the node reads it within a second; a blocked Send or Recv returns by then.
	Close() error
}

// ServerStream is the node's end of a connection.
//
// Send may be called from several goroutines; Recv from one at a time; Close
// from any, at any time.
type ServerStream interface {
	// Send queues m, waiting while the client does not read: whoever must not wait
	// puts a bounded queue and a goroutine of its own before it. It fails with a
	// *messages.Error once the stream has ended.
	Send(m *messages.ServerMessage) error
	// Recv waits for the next message. It fails with io.EOF when the client ended
	// the stream in order, and with a *messages.Error otherwise. Both are final.
	Recv() (*messages.ClientMessage, error)
	// Close ends the stream without waiting: what was sent before goes out first,
	// then, unless reason is nil, a Goodbye with it. A client that does not read
	// is cut off after a second. A blocked Send or Recv returns by then. Only the
	// first call counts.
	Close(reason *messages.ErrorDetail)
	Peer() Peer
}

// Peer says who is at the other end of a ServerStream.
type Peer struct {
	// Kind is KindGRPC, KindInProcess or KindRemote.
	Kind string
	// Address is where the client connects from; in process, what it dialled.
	Address string
	// Name is the name in the client's verified certificate, or empty.
	Name string
}

// Dialer opens connections.
type Dialer interface {
	// Dial connects to a node and returns once the node has accepted the stream.
	// ctx bounds the dialling alone, not the stream. Failures are *messages.Error,
	// never applied: unavailable, timeout, cancelled, unauthenticated.
	Dial(ctx context.Context, endpoint string) (ClientStream, error)
}

// Handler serves one connection. It owns the stream until it returns; the stream
// is closed then, if it was not before.
type Handler func(ServerStream)
