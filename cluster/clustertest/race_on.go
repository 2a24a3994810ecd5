//go:build race

package clustertest

// raceEnabled makes the nodes run under the race detector when the tests do.
const raceEnabled = true
