// Package memlog is the replicated log in memory, behind the ports of package
// consensus. Cluster runs several replicas deterministically for simulation;
// Single is a convenience for unit tests.
package memlog
