// Package compat holds tests of the etcd endpoint against etcd's own code: its server, as
// what to compare with, its client and its etcdctl. It is a module of its own, so that
// none of that reaches anybody who uses ours. `make etcd-compat` runs it.
package compat
