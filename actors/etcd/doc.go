// Package etcd is an endpoint that speaks etcd's v3 API, so that clients of etcd work
// against a node unchanged.
//
// It is a gateway: it owns no state of the store. Each request becomes messages of the
// session protocol, on a connection to this node that is like any other client's, and
// the answers are put into etcd's words. What differs in meaning is translated here:
//
//   - etcd's revisions are ours plus one: an empty store is at 1.
//   - A lease that etcd's side grants without a wish has the id 0x7FC0_0000_0000_0000 + ours; one with a
//     chosen id carries it as its alias, and records say it in their metadata.
//   - Answers without a limit are put together of pages at one revision.
//   - Nested transactions become flat ones with guards.
//
// Receives: gRPC calls and JSON over HTTP, on one listener. Sends: ClientMessage to a
// session of this node. One goroutine reads each connection to a session; nothing here
// is on the path of any other client.
package etcd
