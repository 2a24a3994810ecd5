// Package consumer runs the loop of a durable consumer of changes: it goes on at the
// place that a named cursor in the cluster remembers, hands over every revision of a
// selector, whole and in order, and moves the cursor on behind it.
//
// Delivery is at least once: what was handled after the last checkpoint comes again
// when the consumer, or its process, starts again. A handler that must not act twice
// remembers the revision together with what it does, and skips what is not above it.
//
// The cursor holds history back for as long as its lease lives: while the consumer runs,
// and for Options.Away after it stopped or died. Whoever comes back sooner misses
// nothing. A cursor that was away for longer is gone, and one that fell behind by more
// than the cluster allows no longer counts: if the log was then compacted past it, Run
// says so with the code compacted, and the caller has to read the state anew.
//
// One consumer of a name at a time: two would each see everything, and the further one
// would decide what is forgotten. Hold a mutex where that can happen.
package consumer
