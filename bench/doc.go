// Package bench is the harness of Concord's benchmarks: load generators (a closed
// loop of n clients, an open loop at a rate), latency histograms, workloads over
// the client SDK, baselines that run beside them, and reports. Figures are compared
// as ratios inside one run, because a shared machine drifts between runs; nothing
// here is asserted in a test.
package bench
