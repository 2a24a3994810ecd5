// Package remoting lets services that run protoactor actors talk to a node in
// messages of their own actors: it speaks protoactor's remote protocol, under
// mutual TLS and behind a firewall, and ends in the same transport.Handler as
// every other connection.
//
// A service's actor says ClientHello to Gateway(node) and hears ServerHello from
// the session it now has; it sends Frame, WatchCredit, CancelWatch, Heartbeat and
// Goodbye to that session and receives Replies, WatchBatch, WatchEnd, Heartbeat,
// LeaderHint and at last Goodbye. Answers travel on a second connection, which
// the other side dials back: a service must be reachable at the address that its
// certificate names.
//
// Only the wire format is protoactor's. Its own reader and writer trust every
// peer: unchecked indexes and system messages stop processes, queues have no
// bound, and messages that do not fit vanish. So here each message is checked
// before anything acts on it, goes to a session or to the actor that opened one
// and to nothing else, and waits in queues with a limit. A node needs no actor
// system for it, and has none that a stranger could reach. A peer may well use
// protoactor's remote package on its side.
package remoting

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/messages"
)

// Limits of the protocol.
const (
	// A batch holds up to batchMessagesMax messages and batchBytesMax bytes; one
	// larger message travels alone.
	batchMessagesMax = 32
	batchBytesMax    = 1 << 20
	// What a peer may put into one batch. Library defaults are far higher.
	envelopesMax   = 64
	typeNamesMax   = 16
	idBytesMax     = 256
	envelopeExtra  = 64 << 10 // bytes of a batch beyond its messages
	connectBytes   = 64 << 10 // the largest answer to a connect request
	memberBytesMax = 64

	// Messages and bytes waiting for a peer before Send waits.
	linkMessagesMax = 1024
	linkBytesMax    = 8 << 20
	// Messages and bytes waiting in a session before its peer's connection waits.
	inboxMessagesMax = 512
	inboxBytesMax    = 4 << 20

	streamsPerConnectionMax = 2
	streamsPerPeerMax       = 4

	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 3 * time.Second
	keepaliveMin     = 5 * time.Second
	// A connection without a stream, and a link without a session, end after this.
	idleMax = 30 * time.Second
	// closeGrace is how long a closing endpoint waits for what it still has to say.
	closeGrace = time.Second
)

// gatewayID is the id that new clients speak to; sessionPrefix begins the id of
// every session.
const (
	gatewayID     = "sessions"
	sessionPrefix = gatewayID + "/"
)

// Gateway returns the PID that opens sessions at a node: send it a ClientHello
// with the asking actor as sender (ctx.Request).
func Gateway(node string) *actor.PID { return actor.NewPID(node, gatewayID) }

func lost(format string, args ...any) *messages.ErrorDetail {
	return messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, format, args...).Detail
}
