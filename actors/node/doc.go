// Package node is a member of a cluster: it starts the actors, the log and the
// listeners, wires them, watches over them and stops them. It is also the embedded
// node: Start in any process, and talk to it through Dialer without a socket.
//
//	                  clock --ClockTick--> replica, expiry, watch, gateway, node
//	gateway/session --Propose, ReadBarrier--> replica --entries--> log
//	gateway/session --GetView--> apply <--batches-- log
//	expiry --DueLeases--> apply;  expiry --Propose--> replica
//	apply --Committed--> watch;   apply --ClockOwner--> replica
//	replica --LeaderChanged--> node, watch, gateway;  replica --ClockOwned--> expiry
//	node --Propose(Bootstrap, ReportConsumers)--> replica
//
// Supervision: a panic in replica, apply, expiry, watch or the node's own actor
// ends the process (see Config.Fail): their state cannot be made anew. A session
// that panics is stopped with its connection; nothing else notices. The log,
// dragonboat, is fail-stop by itself.
//
// Nothing is global: several nodes may run in one process, each with its own actor
// system, metrics and clock. Only clock.go reads a clock.
package node
