package session

import (
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestTooEarlyForTheCluster: an operation that a member of an older build would stop at
// is refused before it reaches the log, until the cluster's rules are of the version that
// it came with. Other writes of the same frame go on.
func TestTooEarlyForTheCluster(t *testing.T) {
	change := func() *messages.Operation {
		return write(&messages.Write{Op: &messages.Write_ChangeAuth{ChangeAuth: &messages.ChangeAuth{
			Change: &messages.ChangeAuth_AddRole{AddRole: &messages.AddRole{Name: "r"}},
		}}})
	}
	d := newDesk(t, Limits{})
	d.node.facts.ApplyVersion = messages.ApplyVersionMin
	d.ask(put("a"), change(), put("b"))
	r := d.replies()
	if len(r) != 1 || r[0].Call != 1 {
		t.Fatalf("got %v", r)
	}
	if e := r[0].GetError(); e.GetCode() != messages.Code_CODE_UNSUPPORTED || e.GetField() != "op" ||
		e.GetOutcome() != messages.Outcome_OUTCOME_NOT_APPLIED {
		t.Fatalf("refused with %v", e)
	}
	if len(d.proposed) != 1 || len(d.proposed[0].Commands) != 2 {
		t.Fatalf("proposed %v", d.proposed)
	}
	d.answer()
	d.replies()
	d.node.facts.ApplyVersion = messages.ApplyVersion // raised: no new connection is needed
	d.ask(change())
	if n := len(d.proposed); n != 1 || d.proposed[0].Commands[0].GetChangeAuth() == nil {
		t.Fatalf("proposed %v", d.proposed)
	}
}
