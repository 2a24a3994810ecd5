// Package peers connects the nodes of a cluster beside Raft. Over one gRPC stream to
// each other node go the proposals of a node that does not lead, and over all streams
// signs of life and the addresses by which members are reached.
//
// The endpoint is for nodes alone: whoever reaches it can propose commands. With TLS
// both sides show a certificate of the cluster's authority; without it the address
// must not be reachable by anyone else.
//
// What a forwarded proposal that was not answered means: it had not been handed to the
// stream, then it was not applied; or it had, then nobody knows.
package peers

import (
	"google.golang.org/grpc"

	"github.com/concord-kv/concord/messages"
)

// The service of peer.proto, written by hand like the sessions' one.
const (
	serviceName   = "concord.v1.Peers"
	connectMethod = "Connect"
)

type acceptor interface {
	accept(grpc.ServerStream) error
}

var connectDesc = grpc.StreamDesc{
	StreamName: connectMethod,
	Handler: func(srv any, ss grpc.ServerStream) error {
		return srv.(acceptor).accept(ss)
	},
	ServerStreams: true,
	ClientStreams: true,
}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*acceptor)(nil),
	Streams:     []grpc.StreamDesc{connectDesc},
	Metadata:    "peer.proto",
}

// protocolVersion is PeerHello.protocol.
const protocolVersion = 1

// Limits of a link.
const (
	// callsMax and callBytesMax bound the proposals that one node has under way at
	// another; beyond, a proposal is refused as overloaded. One call is always admitted.
	callsMax     = 65_536
	callBytesMax = 128 << 20
	// replyBytes is where the results of a call are cut into several messages.
	replyBytes = 1 << 20
	// messageBytesMax bounds one message: a result that is larger cannot be passed on.
	messageBytesMax = 128 << 20
	// queueBytesMax bounds the answers that wait for a node that does not read; beyond,
	// its link is cut.
	queueBytesMax = 512 << 20
	// membersMax bounds the addresses that a node keeps.
	membersMax = 128
)

func goodbye(e *messages.Error) *messages.PeerMessage {
	return &messages.PeerMessage{Message: &messages.PeerMessage_Goodbye{Goodbye: &messages.PeerGoodbye{Reason: e.Detail}}}
}
