package transport

import (
	"google.golang.org/grpc"
)

// The service of session.proto, written by hand: one method of two streams needs
// no generator, and the stub would hide where a message is allocated.
const (
	serviceName   = "concord.v1.Sessions"
	connectMethod = "Connect"
)

// sessions is what the service descriptor asks of a server.
type sessions interface {
	connect(grpc.ServerStream) error
}

var connectDesc = grpc.StreamDesc{
	StreamName: connectMethod,
	Handler: func(srv any, ss grpc.ServerStream) error {
		return srv.(sessions).connect(ss)
	},
	ServerStreams: true,
	ClientStreams: true,
}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*sessions)(nil),
	Streams:     []grpc.StreamDesc{connectDesc},
	Metadata:    "session.proto",
}
