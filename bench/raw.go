package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/concord-kv/concord/consensus"
	"github.com/concord-kv/concord/messages"
)

// RawLog is the baseline of writes: proposals of a fixed size to a single replica
// with the settings of a node, applied by a state machine that does nothing. What a
// put costs beyond it is ours.
type RawLog struct {
	log     consensus.Log
	payload []byte
}

// OpenRawLog opens a replica in dir, which must be empty.
func OpenRawLog(ctx context.Context, dir, raftAddress string, payloadBytes int) (*RawLog, error) {
	log, err := consensus.OpenDragonboat(consensus.DragonboatConfig{
		Dir: dir, ReplicaID: 1, RaftAddress: raftAddress,
		InitialMembers: map[uint64]string{1: raftAddress},
	}, nothing{}, nothing{})
	if err != nil {
		return nil, err
	}
	if err := log.WaitReady(ctx); err != nil {
		_ = log.Close()
		return nil, err
	}
	return &RawLog{log: log, payload: make([]byte, payloadBytes)}, nil
}

// Close stops the replica.
func (r *RawLog) Close() error { return r.log.Close() }

// Propose is one proposal, one command an entry.
func (r *RawLog) Propose() Op {
	return func(ctx context.Context, _ int, _ uint64) error {
		done := make(chan error, 1)
		r.log.Propose(r.payload, 5*time.Second, func(_ []*messages.Result, err error) { done <- err })
		return <-done
	}
}

// nothing is a state machine without state.
type nothing struct{}

func (nothing) Apply(entries []consensus.Entry) {
	for i := range entries {
		entries[i].Results = []*messages.Result{}
	}
}
func (nothing) Freeze() consensus.Frozen { return nothing{} }
func (nothing) Save(w io.Writer, _ <-chan struct{}) error {
	_, err := fmt.Fprint(w, "nothing")
	return err
}
func (nothing) Restore(uint64, io.Reader) error { return nil }
func (nothing) LeaderChanged(uint64, uint64)    {}
