// Package consensustest holds the contract of the ports in package consensus as
// tests, to be run on every implementation of them.
package consensustest

import (
	"fmt"
	"testing"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// Subject runs the replicas of one cluster for a test.
type Subject interface {
	// Replicas says how many first members there are, numbered from 1.
	Replicas() int
	// Start boots or restarts a replica.
	Start(id uint64, applier consensus.Applier, listener consensus.Listener) consensus.Log
	// Join boots a replica that was added to the cluster, at Address(id).
	Join(id uint64, nonVoting bool, applier consensus.Applier, listener consensus.Listener) consensus.Log
	// Rejoin restarts a replica that Join had booted, with the same settings.
	Rejoin(id uint64, nonVoting bool, applier consensus.Applier, listener consensus.Listener) consensus.Log
	Address(id uint64) string
	// Hold keeps a replica from applying, until Release.
	Hold(id uint64, r *Recorder)
	Release(id uint64, r *Recorder)
	// Snapshot asks a replica for a snapshot without waiting for it.
	Snapshot(id uint64, log consensus.Log)
	// Wait lets the cluster go on until cond holds, and fails the test when that
	// takes too long.
	Wait(what string, cond func() bool)
}

// Options are what a case needs of its cluster.
type Options struct {
	Replicas         int
	InFlightBytesMax int64 // 0: plenty
}

// New makes the cluster for one case; it lives until the end of t.
type New func(t *testing.T, o Options) Subject

// Run runs the contract.
func Run(t *testing.T, newSubject New) {
	one := Options{Replicas: 1}
	three := Options{Replicas: 3}
	for _, c := range []struct {
		name string
		o    Options
		f    func(*cluster)
	}{
		{"CompletedIsAppliedHere/1", one, completedIsAppliedHere},
		{"CompletedIsAppliedHere/3", three, completedIsAppliedHere},
		{"RefusesWhatCannotBe", one, refusesWhatCannotBe},
		{"BoundsBytesInFlight", Options{Replicas: 1, InFlightBytesMax: 4 << 10}, boundsBytesInFlight},
		{"BatchesAndGaps", one, batchesAndGaps},
		{"ListenerHearsOfNobodyFirst/1", one, listenerHearsOfNobodyFirst},
		{"ListenerHearsOfNobodyFirst/3", three, listenerHearsOfNobodyFirst},
		{"TimeoutIsUnknown", one, timeoutIsUnknown},
		{"LostQuorum", three, lostQuorum},
		{"CloseLeavesUnknown", three, closeLeavesUnknown},
		{"BarrierWaitsForApply/1", one, barrierWaitsForApply},
		{"BarrierWaitsForApply/3", three, barrierWaitsForApply},
		{"ReplayThenReady/1", one, replayThenReady},
		{"ReplayThenReady/3", three, replayThenReady},
		{"SavesBesideApply", one, savesBesideApply},
		{"AbandonedSnapshot", one, abandonedSnapshot},
		{"SnapshotThenReplay", one, snapshotThenReplay},
		{"LaggardGetsSnapshot", three, laggardGetsSnapshot},
		{"TransferLeader", three, transferLeader},
		{"LeaderHasNotApplied", three, leaderHasNotApplied},
		{"TransferUnderLoad", three, transferUnderLoad},
		{"Membership", three, membership},
		{"PromotedMemberRestarts", three, promotedMemberRestarts},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.f(&cluster{
				Subject: newSubject(t, c.o), t: t,
				logs: map[uint64]consensus.Log{}, rec: map[uint64]*Recorder{}, heard: map[uint64]*listener{},
			})
		})
	}
}

// cluster is a Subject and what stands on it in one case.
type cluster struct {
	Subject
	t     *testing.T
	logs  map[uint64]consensus.Log
	rec   map[uint64]*Recorder
	heard map[uint64]*listener
	count int
}

func (c *cluster) start(id uint64) {
	c.rec[id], c.heard[id] = NewRecorder(), &listener{}
	c.logs[id] = c.Start(id, c.rec[id], c.heard[id])
}

func (c *cluster) stop(id uint64) {
	if err := c.logs[id].Close(); err != nil {
		c.t.Fatalf("closing replica %d: %v", id, err)
	}
}

// startAll starts the first members and waits until they are ready.
func (c *cluster) startAll() {
	c.t.Helper()
	for id := uint64(1); id <= uint64(c.Replicas()); id++ {
		c.start(id)
	}
	for id := uint64(1); id <= uint64(c.Replicas()); id++ {
		c.waitReady(id)
	}
}

func (c *cluster) waitReady(id uint64) {
	c.t.Helper()
	c.Wait(fmt.Sprintf("replica %d to be ready", id), func() bool { return c.logs[id].Status().Ready })
}

// leader waits for a leader that replica id knows.
func (c *cluster) leader(id uint64) uint64 {
	c.t.Helper()
	c.Wait("a leader", func() bool { return c.logs[id].Status().LeaderID != 0 })
	return c.logs[id].Status().LeaderID
}

// propose sends an entry and does not wait.
func (c *cluster) propose(id uint64, payload string, timeout time.Duration) *answer {
	a := &answer{t: c.t, payload: payload}
	b := []byte(payload)
	c.logs[id].Propose(b, timeout, func(results []*messages.Result, err error) { a.end(results, err) })
	for i := range b {
		b[i] = 0xEE // the log must not have kept it
	}
	return a
}

// name makes a payload that no other is equal to.
func (c *cluster) name() string { c.count++; return fmt.Sprintf("entry-%04d", c.count) }

func (c *cluster) wait(a *answer) error {
	c.t.Helper()
	c.Wait("an answer about "+a.payload, a.ended)
	return a.err()
}

// put gets an entry applied and insists: what is dropped is proposed again, and
// what is unknown, because it was forwarded to a leader that went, is followed by
// another one.
func (c *cluster) put(id uint64) *answer {
	c.t.Helper()
	p := c.name()
	for range 50 {
		a := c.propose(id, p, time.Second)
		err := c.wait(a)
		switch {
		case err == nil:
			return a
		case messages.OutcomeOf(err) == messages.Outcome_OUTCOME_UNKNOWN:
			p = c.name()
		}
		c.barrier(id)
	}
	c.t.Fatalf("replica %d does not take an entry%s", id, c.state())
	return nil
}

// later lets a little time pass.
func (c *cluster) later() {
	c.t.Helper()
	looks := 0
	c.Wait("some time", func() bool { looks++; return looks > 3 })
}

// state is what the Subject says of its replicas, if it does.
func (c *cluster) state() string {
	if s, ok := c.Subject.(fmt.Stringer); ok {
		return ":\n" + s.String()
	}
	return ""
}

// barrier passes a read barrier, asking again as often as needed.
func (c *cluster) barrier(id uint64) {
	c.t.Helper()
	for range 50 {
		if c.read(id, time.Second) == nil {
			return
		}
		c.later() // what was dropped was so at once
	}
	c.t.Fatalf("replica %d reaches no barrier%s", id, c.state())
}

func (c *cluster) read(id uint64, timeout time.Duration) error {
	c.t.Helper()
	a := &answer{t: c.t, payload: "a barrier"}
	c.logs[id].ReadIndex(timeout, func(err error) { a.end(nil, err) })
	return c.wait(a)
}

// change makes a membership change, asking again while it is not applied.
func (c *cluster) change(what string, ask func(done func(error))) {
	c.t.Helper()
	var err error
	for range 50 {
		if err = c.ask(what, ask); err == nil {
			return
		}
		if messages.OutcomeOf(err) != messages.Outcome_OUTCOME_NOT_APPLIED || messages.CodeOf(err) == messages.Code_CODE_INVALID_ARGUMENT {
			break
		}
	}
	c.t.Fatalf("%s: %v", what, err)
}

func (c *cluster) ask(what string, ask func(done func(error))) error {
	c.t.Helper()
	a := &answer{t: c.t, payload: what}
	ask(func(err error) { a.end(nil, err) })
	return c.wait(a)
}

func (c *cluster) wantError(err error, code messages.Code, outcome messages.Outcome) {
	c.t.Helper()
	if messages.CodeOf(err) != code || messages.OutcomeOf(err) != outcome {
		c.t.Fatalf("got %v, want %s with outcome %s", err, messages.CodeName(code), messages.OutcomeName(outcome))
	}
}
