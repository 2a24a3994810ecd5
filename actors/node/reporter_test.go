package node

import (
	"testing"

	"github.com/concord-kv/concord/messages"
)

func TestReporter(t *testing.T) {
	var sent []*messages.Propose
	r := &reporter{replicaID: 1, propose: func(m *messages.Propose) { sent = append(sent, m) }}
	answer := func(results ...*messages.Result) {
		t.Helper()
		if len(sent) == 0 {
			t.Fatal("nothing was proposed")
		}
		id := sent[0].GetRequestId()
		sent = sent[1:]
		r.proposed(&messages.Proposed{RequestId: id, Results: results})
	}
	granted := &messages.Result{Answer: &messages.Result_GrantLease{GrantLease: &messages.GrantLeaseResult{LeaseId: 7}}}
	kept := &messages.Result{Answer: &messages.Result_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLeaseResult{LeaseId: 7}}}
	revoked := &messages.Result{Answer: &messages.Result_RevokeLease{RevokeLease: &messages.RevokeLeaseResult{}}}
	refused := func(c messages.Code) *messages.Result {
		return &messages.Result{Error: messages.NewError(c, "").Detail}
	}

	r.tick(1)
	if len(sent) != 0 {
		t.Fatal("a node without watches reports")
	}
	r.consumers(10, true)
	answer(granted)
	rep := sent[0].GetCommands()[0].GetReportConsumers()
	if rep.GetLeaseId() != 7 || rep.GetAfterRevision() != 10 || !rep.GetActive() || rep.GetReplicaId() != 1 {
		t.Fatalf("report %v", rep)
	}
	r.consumers(11, true) // one proposal at a time
	if len(sent) != 1 {
		t.Fatal("two at once")
	}
	answer(&messages.Result{}, kept)
	if got := sent[0].GetCommands()[0].GetReportConsumers().GetAfterRevision(); got != 11 {
		t.Fatalf("then reported %d", got)
	}
	answer(&messages.Result{}, kept)
	if len(sent) != 0 {
		t.Fatal("nothing changed, and it reports")
	}
	r.tick(reporterRenewMs)
	r.tick(reporterRenewMs + 1)
	answer(refused(messages.Code_CODE_OVERLOADED))
	if r.tick(reporterRenewMs + 2); len(sent) != 0 {
		t.Fatal("no pause after a failure")
	}
	r.tick(reporterRenewMs + 1 + reporterRetryMs)
	answer(refused(messages.Code_CODE_LEASE_NOT_FOUND))
	r.tick(reporterRenewMs + 1 + 2*reporterRetryMs)
	answer(granted)
	answer(&messages.Result{}, kept)
	r.consumers(0, false)
	answer(revoked)
	if r.tick(1_000_000); len(sent) != 0 {
		t.Fatal("it reports after its last watch ended")
	}
}
