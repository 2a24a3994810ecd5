package node

import (
	"context"
	"io"
	"time"

	"github.com/concord-kv/concord/messages"
)

// Salvage saves what the replica in cfg.Dir knows, as a backup, for a cluster that has
// lost its majority for good. The node does not serve meanwhile. What was acknowledged a
// moment before the loss may be missing: a replica learns that an entry is committed with
// the next one, or a heartbeat later.
//
// It refuses while the cluster has a leader: then nothing is lost, and a backup of a live
// node has everything. ctx bounds the wait for the log to be replayed.
func Salvage(ctx context.Context, cfg Config, w io.Writer) (revision uint64, err error) {
	cfg.ClientAddress, cfg.AdminAddress, cfg.StartTimeout = "", "", -1
	n, err := Start(cfg)
	if err != nil {
		return 0, err
	}
	defer n.Close()
	if err := n.settled(ctx); err != nil {
		return 0, err
	}
	v, err := n.view(ctx)
	if err != nil {
		return 0, err
	}
	if id, _ := v.ClusterID(); len(id) == 0 {
		return 0, messages.InvalidField("data_dir", "it holds no state of a cluster")
	}
	return v.Revision(), v.Save(w)
}

const (
	// settledFor without another entry applied, the log is replayed.
	settledFor  = 3 * time.Second
	settledPoll = 50 * time.Millisecond
)

// settled waits until everything that this replica knows to be committed is applied.
func (n *Node) settled(ctx context.Context) error {
	ticker := time.NewTicker(settledPoll)
	defer ticker.Stop()
	last, since := n.log.Status().AppliedIndex, n.cfg.Clock.MonotonicMs()
	for n.cfg.Clock.MonotonicMs()-since < settledFor.Milliseconds() {
		select {
		case <-n.ready:
			return messages.NewError(messages.Code_CODE_ALREADY_BOOTSTRAPPED,
				"the cluster has a leader: nothing is lost; use `concord backup` and `concord cluster`")
		case <-n.fail.halted:
			return messages.NewError(messages.Code_CODE_INTERNAL, "the node failed while its log was read")
		case <-ctx.Done():
			return messages.NewError(messages.Code_CODE_TIMEOUT, "the log was not replayed in time")
		case <-ticker.C:
		}
		if applied := n.log.Status().AppliedIndex; applied != last {
			last, since = applied, n.cfg.Clock.MonotonicMs()
		}
	}
	return nil
}
