package consensus_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/consensus/consensustest"
)

// subject runs the contract on dragonboat: real files, real sockets on loopback.
type subject struct {
	t         *testing.T
	o         consensustest.Options
	dir       string
	addresses map[uint64]string
	open      []consensus.Log
}

func newSubject(t *testing.T, o consensustest.Options) consensustest.Subject {
	s := &subject{t: t, o: o, dir: t.TempDir(), addresses: map[uint64]string{}}
	for id := range uint64(o.Replicas + 1) {
		s.addresses[id+1] = freeAddress(t)
	}
	t.Cleanup(func() {
		for _, log := range s.open {
			log.Close()
		}
	})
	return s
}

func (s *subject) Replicas() int { return s.o.Replicas }

func (s *subject) config(id uint64) consensus.DragonboatConfig {
	cfg := consensus.DragonboatConfig{
		Dir: filepath.Join(s.dir, fmt.Sprint(id)), ReplicaID: id, RaftAddress: s.addresses[id],
		InFlightBytesMax: s.o.InFlightBytesMax, SnapshotKeepEntries: 1,
		// Faster than in production, so that elections do not fill the test's time.
		Timing: consensus.Timing{RTT: 10 * time.Millisecond, ElectionTicks: 10, HeartbeatTicks: 1},
	}
	return cfg
}

func (s *subject) start(cfg consensus.DragonboatConfig, a consensus.Applier, l consensus.Listener) consensus.Log {
	s.t.Helper()
	log, err := consensus.OpenDragonboat(cfg, a, l)
	if err != nil {
		s.t.Fatal(err)
	}
	s.open = append(s.open, log)
	return log
}

func (s *subject) Start(id uint64, a consensus.Applier, l consensus.Listener) consensus.Log {
	cfg := s.config(id)
	cfg.InitialMembers = map[uint64]string{}
	for m := range uint64(s.o.Replicas) {
		cfg.InitialMembers[m+1] = s.addresses[m+1]
	}
	return s.start(cfg, a, l)
}

func (s *subject) Join(id uint64, nonVoting bool, a consensus.Applier, l consensus.Listener) consensus.Log {
	cfg := s.config(id)
	cfg.Join, cfg.NonVoting = true, nonVoting
	return s.start(cfg, a, l)
}

func (s *subject) Rejoin(id uint64, nonVoting bool, a consensus.Applier, l consensus.Listener) consensus.Log {
	return s.Join(id, nonVoting, a, l)
}

func (s *subject) Address(id uint64) string { return s.addresses[id] }

func (s *subject) Hold(_ uint64, r *consensustest.Recorder) { r.Hold() }

func (s *subject) Release(_ uint64, r *consensustest.Recorder) { r.Release() }

func (s *subject) Snapshot(_ uint64, log consensus.Log) {
	go func() {
		if err := log.RequestSnapshot(10 * time.Second); err != nil {
			s.t.Errorf("snapshot: %v", err)
		}
	}()
}

func (s *subject) Wait(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !cond() {
		select {
		case <-again.C:
		case <-deadline.C:
			s.t.Fatalf("waiting for %s in vain", what)
		}
	}
}

func TestContract(t *testing.T) { consensustest.Run(t, newSubject) }
