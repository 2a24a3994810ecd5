package node

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// reporter keeps the cluster informed of how far this node's watches have come, so
// that compaction does not pass them. The report hangs on a lease of the node: when
// the node dies, what it held back is let go.
//
// It decides only; one goroutine calls it, and time comes in with tick.
type reporter struct {
	replicaID uint64
	propose   func(*messages.Propose)

	nowMs int64

	wanted   progress
	reported progress // what the log has, under lease
	lease    uint64   // 0: none
	renewMs  int64    // when to renew it next

	lastID uint64
	asked  uint64 // the proposal that is out; 0 for none
	sent   progress
	holdMs int64 // no proposal before this, after a failure
}

// progress is what watches have delivered completely; not active without watches.
type progress struct {
	after  uint64
	active bool
}

const (
	reporterLeaseMs   = 30_000
	reporterRenewMs   = reporterLeaseMs / 3
	reporterTimeoutMs = 5_000
	reporterRetryMs   = 1_000
)

// consumers takes what the watch hub says.
func (r *reporter) consumers(after uint64, active bool) {
	r.wanted = progress{after: after, active: active}
	r.step()
}

// tick lets time pass.
func (r *reporter) tick(nowMs int64) {
	r.nowMs = nowMs
	r.step()
}

// step proposes what is missing, one proposal at a time.
func (r *reporter) step() {
	if r.asked != 0 || r.nowMs < r.holdMs {
		return
	}
	switch {
	case !r.wanted.active && r.lease == 0:
	case !r.wanted.active:
		// The report goes with the lease.
		r.send(&messages.Command{Op: &messages.Command_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: r.lease}}})
	case r.lease == 0:
		r.send(&messages.Command{Op: &messages.Command_GrantLease{GrantLease: &messages.GrantLease{
			TtlMs:    reporterLeaseMs,
			Metadata: []*messages.MetadataEntry{{Name: "node", Value: fmt.Appendf(nil, "watches of replica %d", r.replicaID)}},
		}}})
	case r.wanted != r.reported || r.nowMs >= r.renewMs:
		// A report comes first: commands of nodes are not held back behind clients.
		r.send(
			&messages.Command{Op: &messages.Command_ReportConsumers{ReportConsumers: &messages.ReportConsumers{
				ReplicaId: r.replicaID, LeaseId: r.lease, AfterRevision: r.wanted.after, Active: true,
			}}},
			&messages.Command{Op: &messages.Command_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{LeaseId: r.lease}}},
		)
	}
}

func (r *reporter) send(commands ...*messages.Command) {
	for _, c := range commands {
		c.Trusted = true // the node's own
	}
	r.lastID++
	r.asked, r.sent = r.lastID, r.wanted
	r.propose(&messages.Propose{RequestId: r.asked, Commands: commands, TimeoutMs: reporterTimeoutMs})
}

// proposed takes an answer. Both commands of a report are answered; the first that
// fails decides, and whatever failed is tried again from the start.
func (r *reporter) proposed(m *messages.Proposed) {
	if m.GetRequestId() != r.asked {
		return
	}
	for i, res := range m.GetResults() {
		if e := res.GetError(); e != nil {
			r.asked, r.holdMs = 0, r.nowMs+reporterRetryMs
			if e.GetOutcome() != messages.Outcome_OUTCOME_UNKNOWN && gone(e.GetCode()) {
				r.lease, r.reported = 0, progress{}
			}
			return
		}
		switch {
		case res.GetGrantLease() != nil:
			r.asked, r.lease, r.renewMs = 0, res.GetGrantLease().GetLeaseId(), r.nowMs+reporterRenewMs
		case res.GetRevokeLease() != nil:
			r.asked, r.lease, r.reported = 0, 0, progress{}
		case res.GetKeepAliveLease() != nil:
			r.asked, r.reported, r.renewMs = 0, r.sent, r.nowMs+reporterRenewMs
		case m.GetFirst()+uint32(i) > 0:
			r.asked = 0 // an answer of another kind: nothing was learnt
		}
	}
	r.step()
}

func gone(c messages.Code) bool {
	return c == messages.Code_CODE_LEASE_NOT_FOUND || c == messages.Code_CODE_UNKNOWN_LEASE
}
