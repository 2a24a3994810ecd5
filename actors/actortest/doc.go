// Package actortest holds the tests that run production actors together, and the tests
// that hold the tree to its layers. The simulation itself is package sim below it.
//
//	go test ./actors/actortest -run TestSim$ -sim.seeds=500      so many seeds, today's
//	go test ./actors/actortest -run TestSim$ -sim.from=1 -sim.seeds=500
//	go test ./actors/actortest -run TestSim$ -sim.seed=12        one seed again
//	go test ./actors/actortest -run TestSim$ -sim.seed=12 -sim.trace=/tmp/12
//	go test ./actors/actortest -run TestSimDeterministic -sim.same.seeds=50 -sim.same.runs=20
//	go test ./actors/actortest -run TestPlanted -sim.planted=stale
//	go test ./actors/actortest -run TestScripts -rewrite         after a script was changed
//
// Without flags TestSim runs 100 seeds, or as many as fit into 90 seconds, with -short
// into 20. A failure prints the seed, the commit and the script, shrunk for at most
// -sim.shrink.
//
// TestSim and TestScripts speak a plain framed codec over the simulated network: a seed
// is one run, byte for byte. TestSimGRPC speaks gRPC over the same network: it covers
// its framing, flow control, keep-alives and ends of streams under the same faults, and
// the same promises are checked, but how it cuts its bytes is up to its goroutines, so a
// seed may differ from run to run. Nodes pass proposals on over their production links,
// in the plain codec as well.
package actortest
