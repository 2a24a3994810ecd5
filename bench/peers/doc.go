// Command peers measures Concord, etcd, NATS JetStream KV and ZooKeeper with the same
// load on the same machine, in turn, and prints how they compare.
//
// Each system runs as a fresh cluster of processes on loopback, with its own defaults but
// for what is said in its file, and each acknowledges a write after a majority has
// synced it to disk. A client is a goroutine with one operation outstanding; clients
// share at most a hundred connections, spread over all members.
package main
