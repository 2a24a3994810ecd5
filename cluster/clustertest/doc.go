// Package clustertest runs real nodes as processes of their own, does to them what
// machines do (kill -9, SIGSTOP, SIGTERM, restart), and checks what clients were
// promised. Nodes listen on loopback only and end with the test that started them.
package clustertest
