// Package kube runs a real kube-apiserver on a node's etcd endpoint. It is a module of its
// own for the apiserver's dependencies, and nothing of the project is built with them: the
// test starts both programs. `make kube` builds them, which takes minutes and gigabytes of
// build cache, and runs it.
package kube
