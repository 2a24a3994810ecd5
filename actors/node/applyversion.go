package node

import (
	"log/slog"

	"github.com/concord-kv/concord/messages"
)

// raiser lets newer rules of the state machine begin once every member can follow
// them. The leader's node proposes it: a member whose build does not know a version
// must stop at the command that raises it, so nobody asks before all have said that
// they know it. A member that this node has never heard holds it back; an older
// build that comes later stops, and says which version it lacks.
//
// It decides only; one goroutine calls it.
type raiser struct {
	// supported returns the highest version that every member can run, 0 while that
	// of some member is not known.
	supported func() uint32
	propose   func(*messages.Propose)
	logger    *slog.Logger

	lastID uint64
	asked  uint64 // the proposal that is out; 0 for none
	wanted uint32
	holdMs int64 // no proposal before this, after a failure
}

const (
	// raiserIDs tells its proposals from those of root's other parts.
	raiserIDs     = 1 << 62
	raiserRetryMs = 5_000
)

// look compares the version of the cluster with what its members can run.
func (r *raiser) look(leads bool, current uint32, nowMs int64) {
	if !leads || r.asked != 0 || nowMs < r.holdMs {
		return
	}
	version := r.supported()
	if version <= current {
		return
	}
	r.lastID++
	r.asked, r.wanted = raiserIDs|r.lastID, version
	r.propose(&messages.Propose{
		RequestId: r.asked, TimeoutMs: reporterTimeoutMs,
		Commands: []*messages.Command{{Op: &messages.Command_RaiseApplyVersion{
			RaiseApplyVersion: &messages.RaiseApplyVersion{Version: version},
		}}},
	})
}

// proposed takes an answer and reports whether it was one of its own. What failed is
// found wanting again.
func (r *raiser) proposed(m *messages.Proposed, nowMs int64) bool {
	if m.GetRequestId()&raiserIDs == 0 {
		return false
	}
	if m.GetRequestId() != r.asked {
		return true
	}
	r.asked = 0
	if e := m.GetResults()[0].GetError(); e != nil {
		r.holdMs = nowMs + raiserRetryMs
		r.logger.Warn("the apply version was not raised", "version", r.wanted, "error", messages.ErrorFrom(e))
		return true
	}
	r.logger.Info("the apply version was raised: older builds can no longer take part", "version", r.wanted)
	return true
}

// supportedVersion is the highest apply version that every member can run, by what
// each has said of itself; 0 while that of some member is not known.
func (n *Node) supportedVersion() uint32 {
	version := n.cfg.Seams.ApplyVersion
	if n.peers() == nil {
		return version // nobody else
	}
	m := n.members.known()
	if len(m.Voting) == 0 {
		return 0
	}
	for _, ids := range []map[uint64]string{m.Voting, m.NonVoting} {
		for id := range ids {
			if id == n.cfg.ReplicaID {
				continue
			}
			p, ago := n.links.of(id)
			if ago < 0 {
				return 0
			}
			version = min(version, p.hello.GetApplyVersionMax())
		}
	}
	return version
}
