package node

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/concord-kv/concord/messages"
	"github.com/concord-kv/concord/state"
)

// auditTimeoutMs is how long the log may take with an audit record.
const auditTimeoutMs = 5_000

// audited says what an audit record says of an operator's request; "" where none is due.
func audited(r *messages.AdminRequest) (action, detail string) {
	switch x := r.GetRequest().(type) {
	case *messages.AdminRequest_AddMember:
		m := x.AddMember.GetAddress()
		return "member_add", fmt.Sprintf("replica %d raft %s peer %s client %s non_voting %v",
			m.GetReplicaId(), m.GetRaft(), m.GetPeer(), m.GetClient(), x.AddMember.GetNonVoting())
	case *messages.AdminRequest_PromoteMember:
		return "member_promote", fmt.Sprintf("replica %d", x.PromoteMember.GetReplicaId())
	case *messages.AdminRequest_RemoveMember:
		return "member_remove", fmt.Sprintf("replica %d force %v", x.RemoveMember.GetReplicaId(), x.RemoveMember.GetForce())
	case *messages.AdminRequest_MoveLeader:
		return "leader_move", fmt.Sprintf("replica %d", x.MoveLeader.GetReplicaId())
	case *messages.AdminRequest_SaveSnapshot:
		return "snapshot_save", ""
	case *messages.AdminRequest_Backup:
		if x.Backup.GetBackupId() == 0 {
			return "backup", ""
		}
	}
	return "", ""
}

// record proposes the audit record of a request that was carried out, or has failed. It
// is best effort: where the log takes nothing, members do not change either, and the
// node's own log has it.
func (n *Node) record(root *actor.RootContext, operator *actor.PID, m *messages.AskAdmin, err error) {
	action, detail := audited(m.GetRequest())
	if action == "" {
		return
	}
	n.cfg.Logger.Info("an operator's request", "action", action, "detail", detail, "by", m.GetPrincipal(), "from", m.GetAddress(), "error", err)
	if len(detail) > messages.AuditDetailBytesMax {
		detail = detail[:messages.AuditDetailBytesMax]
	}
	command := &messages.Command{
		Principal: m.GetPrincipal(), Trusted: true,
		Audit: &messages.AuditContext{AtUnixMs: n.cfg.Clock.WallMs(), Address: m.GetAddress(), Action: action, Detail: detail},
		Op:    &messages.Command_RecordAudit{RecordAudit: &messages.RecordAudit{Code: messages.CodeOf(err)}},
	}
	if n.facts.applied.Load().ApplyVersion < state.VersionOf(command) {
		return // it would stop members of an older build
	}
	root.RequestWithCustomSender(n.pids.replica, &messages.Propose{
		TimeoutMs: auditTimeoutMs, Commands: []*messages.Command{command},
	}, operator)
}
