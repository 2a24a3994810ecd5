package node

import (
	"log/slog"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// TestRaiser: the leader alone asks, once at a time, for what all members can run.
func TestRaiser(t *testing.T) {
	var sent []*messages.Propose
	supported := uint32(0)
	r := raiser{
		supported: func() uint32 { return supported },
		propose:   func(p *messages.Propose) { sent = append(sent, p) },
		logger:    slog.New(slog.DiscardHandler),
	}
	expect := func(what string, version uint32) {
		t.Helper()
		var got uint32
		if len(sent) > 0 {
			got = sent[0].GetCommands()[0].GetRaiseApplyVersion().GetVersion()
		}
		if got != version || len(sent) > 1 {
			t.Fatalf("%s: asked for %d (%d proposals), want %d", what, got, len(sent), version)
		}
	}
	answer := func(e *messages.Error, nowMs int64) {
		t.Helper()
		result := &messages.Result{}
		if e != nil {
			result.Error = e.Detail
		}
		m := &messages.Proposed{RequestId: sent[0].GetRequestId(), Results: []*messages.Result{result}}
		sent = nil
		if !r.proposed(m, nowMs) {
			t.Fatal("its own answer was not taken")
		}
	}

	r.look(true, 1, 0)
	expect("while a member is not known", 0)
	supported = 2
	r.look(false, 1, 0)
	expect("on a follower", 0)
	r.look(true, 2, 0)
	expect("at that version", 0)
	r.look(true, 3, 0)
	expect("beyond it", 0)
	r.look(true, 1, 0)
	r.look(true, 1, 0)
	expect("on the leader", 2)
	answer(messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, ""), 1_000)
	r.look(true, 1, 1_000)
	expect("just after a failure", 0)
	r.look(true, 1, 1_000+raiserRetryMs)
	expect("later", 2)
	answer(nil, 10_000)
	r.look(true, 2, 10_000)
	expect("when it is done", 0)
	if r.proposed(&messages.Proposed{RequestId: 7}, 0) {
		t.Fatal("it took an answer of somebody else")
	}
}
