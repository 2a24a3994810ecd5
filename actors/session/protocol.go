// Package session is where clients arrive: a gateway actor, and below it one actor
// for each connection, whichever way it came (in process, gRPC, protoactor
// remote). A session checks what the client says before it costs anybody else
// anything, asks replica, apply and the watch hub, and answers.
//
// # Wiring
//
//	gw, err := session.NewGateway(system, session.Config{
//		Replica: replicaPID, Apply: applyPID, Watch: watchPID,
//		Node: node, // the facts port
//	})
//	transport.ServeGRPC(listener, gw.Serve, options) // Serve is a transport.Handler
//	dialer := transport.NewInProcess(gw.Serve)
//	// node's clock and replica: ClockTick (every 50 to 500 ms) and LeaderChanged to gw.PID()
//	gw.Close(ctx) // before the actors it asks are stopped
//
// PIDs may be named before their actors are spawned.
//
// # The gateway
//
// Owns: which connections there are. Receives: connections from Serve;
// messages.ClockTick and messages.LeaderChanged, which it passes on. Sends:
// protocol.SessionClosed to the hub when a session is gone, whatever it died of.
// Mailbox: unbounded; connections are counted before they get there. On panic:
// the node's choice, by GatewayProps.
//
// # A session
//
// Owns: the connection's calls, and the order of its answers. Receives:
//   - messages.ClientMessage, from the stream, a few at a time: the next are read
//     only when these are done with.
//   - messages.Proposed and messages.BarrierReached, from replica, by request id.
//   - state.GotView, from apply, by request id.
//   - messages.AdminAnswered, from the node's operator, by request id.
//   - protocol.Deliver, from the hub.
//   - messages.ClockTick and messages.LeaderChanged, from the gateway.
//
// Sends: messages.Propose and messages.ReadBarrier to replica, state.GetView to
// apply, messages.AskAdmin to the operator, protocol's messages to the hub, messages.ServerMessage to the client by
// way of a bounded queue and a goroutine.
//
// Mailbox: unbounded; what comes in is an answer to what the limits let out. On
// panic: it stops, never restarts: the client's stream ends, and what became of
// its calls is unknown to it.
//
// Each call is answered once, or the stream ends; then its outcome is unknown.
package session
