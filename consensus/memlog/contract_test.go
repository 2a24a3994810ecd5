package memlog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/consensus/consensustest"
	"github.com/concord-kv/concord/consensus/memlog"
)

// subject runs the contract on a Cluster.
type subject struct {
	t *testing.T
	n int
	c *memlog.Cluster
}

func (s *subject) Replicas() int { return s.n }

func (s *subject) Start(id uint64, a consensus.Applier, l consensus.Listener) consensus.Log {
	return s.c.Start(id, a, l)
}

func (s *subject) Join(id uint64, _ bool, a consensus.Applier, l consensus.Listener) consensus.Log {
	return s.c.Join(id, a, l)
}

func (s *subject) Rejoin(id uint64, _ bool, a consensus.Applier, l consensus.Listener) consensus.Log {
	return s.c.Start(id, a, l)
}

func (s *subject) Address(id uint64) string { return fmt.Sprintf("memory:%d", id) }

func (s *subject) Hold(id uint64, _ *consensustest.Recorder) { s.c.HoldApply(id) }

func (s *subject) Release(id uint64, _ *consensustest.Recorder) { s.c.ReleaseApply(id) }

func (s *subject) Snapshot(id uint64, _ consensus.Log) { s.c.Snapshot(id) }

func (s *subject) String() string { return s.c.String() }

func (s *subject) Wait(what string, cond func() bool) {
	s.t.Helper()
	if !s.c.Until(5000, cond) {
		s.t.Fatalf("waiting for %s in vain", what)
	}
}

func TestContract(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			consensustest.Run(t, func(t *testing.T, o consensustest.Options) consensustest.Subject {
				cfg := memlog.Config{Replicas: o.Replicas, InFlightBytesMax: int(o.InFlightBytesMax), SnapshotKeep: 1}
				if seed%2 == 1 {
					cfg.Network.DelayTicks = 2
				}
				return &subject{t: t, n: o.Replicas, c: memlog.New(cfg, rand.New(rand.NewPCG(seed, 1)))}
			})
		})
	}
}
