package replica

import (
	"errors"
	"testing"

	"github.com/concord-kv/concord/messages"
)

// leaderNode plays the links to other nodes: it writes down what was passed on.
type leaderNode struct {
	unreachable bool
	tickets     []uint64
	to          []uint64
	passed      []*messages.Propose
}

func (l *leaderNode) relay(ticket, replicaID uint64, m *messages.Propose) error {
	if l.unreachable {
		return messages.NewError(messages.Code_CODE_NO_LEADER, "no link")
	}
	l.tickets, l.to, l.passed = append(l.tickets, ticket), append(l.to, replicaID), append(l.passed, m)
	return nil
}

// follower is a rig whose core follows replica 2 and has links.
func follower(t *testing.T) (*rig, *leaderNode) {
	r, l := newRig(t, Limits{WaitingCommandsMax: 4}), &leaderNode{}
	r.core.relays.port = l
	r.core.leaderSeen(2, 7)
	return r, l
}

func codes(results []*messages.Result) (all []string) {
	for _, x := range results {
		e := x.GetError()
		if e == nil {
			all = append(all, "ok")
			continue
		}
		all = append(all, messages.CodeName(e.Code)+"/"+messages.OutcomeName(e.Outcome))
	}
	return all
}

func expect(t *testing.T, got []*messages.Result, want ...string) {
	t.Helper()
	all := codes(got)
	if len(all) != len(want) {
		t.Fatalf("%v, want %v", all, want)
	}
	for i := range want {
		if all[i] != want[i] {
			t.Fatalf("%v, want %v", all, want)
		}
	}
}

func ok(n int) []*messages.Result {
	all := make([]*messages.Result, n)
	for i := range all {
		all[i] = &messages.Result{Revision: uint64(i + 1)}
	}
	return all
}

func TestFollowerPassesOn(t *testing.T) {
	r, l := follower(t)
	r.put(1, "a", "b")
	if len(l.passed) != 1 || l.to[0] != 2 || len(r.sent) != 0 {
		t.Fatalf("passed on %v, proposed %v", l.passed, r.sent)
	}
	r.core.relayed(l.tickets[0], 1, ok(1))
	r.core.relayed(l.tickets[0], 0, ok(1))
	r.core.relayed(l.tickets[0], 0, ok(1)) // again: nobody's
	expect(t, r.answers[1], "ok", "ok")
	if c := &r.core.relays; len(c.byTicket) != 0 || c.commands != 0 || c.bytes != 0 {
		t.Errorf("left: %+v", c)
	}
}

// TestPassedOnIsNotPassedOnAgain: two nodes that take each other for the leader must
// not play ball.
func TestPassedOnIsNotPassedOnAgain(t *testing.T) {
	r, l := follower(t)
	r.core.take("peer", &messages.Propose{RequestId: 1, Commands: []*messages.Command{put("a")}})
	if len(l.passed) != 0 {
		t.Fatal("it was passed on")
	}
	expect(t, r.answers[1], "not_leader/not_applied")
}

// TestOnlyTheLeaderTicks: what only a leader proposes is not passed on.
func TestOnlyTheLeaderTicks(t *testing.T) {
	r, l := follower(t)
	r.core.propose("expiry", &messages.Propose{RequestId: 1, Commands: []*messages.Command{tickCommand()}})
	expect(t, r.answers[1], "not_leader/not_applied")
	r.core.propose("node", &messages.Propose{RequestId: 2, Commands: []*messages.Command{
		{Op: &messages.Command_ReportConsumers{ReportConsumers: &messages.ReportConsumers{ReplicaId: 1}}},
	}})
	if len(l.passed) != 1 {
		t.Fatal("a report of this node's watches was not passed on")
	}
}

func TestUnreachableLeader(t *testing.T) {
	r, l := follower(t)
	l.unreachable = true
	r.put(1, "a", "b")
	expect(t, r.answers[1], "no_leader/not_applied", "no_leader/not_applied")
	if r.core.relays.commands != 0 {
		t.Error("it counts what was not sent")
	}
}

// TestLinkLost: the failure is for the commands without a result.
func TestLinkLost(t *testing.T) {
	r, l := follower(t)
	r.put(1, "a", "b", "c")
	r.core.relayed(l.tickets[0], 1, ok(1))
	r.core.relayFailed(l.tickets[0], messages.UnknownOutcome(messages.Code_CODE_UNAVAILABLE, "lost").Detail)
	expect(t, r.answers[1], "unavailable/unknown", "ok", "unavailable/unknown")
	r.core.relayed(l.tickets[0], 0, ok(1)) // too late
	expect(t, r.answers[1], "unavailable/unknown", "ok", "unavailable/unknown")
}

// TestLeaderChangesUnderARelay: what the old leader had may have been applied; losing
// sight of it alone says nothing yet.
func TestLeaderChangesUnderARelay(t *testing.T) {
	r, l := follower(t)
	r.put(1, "a")
	r.core.leaderSeen(0, 8)
	expect(t, r.answers[1])
	r.core.leaderSeen(3, 9)
	expect(t, r.answers[1], "no_leader/unknown")
	r.put(2, "b")
	if l.to[len(l.to)-1] != 3 {
		t.Errorf("passed on to %v", l.to)
	}
	// And this node itself becomes the leader.
	r.core.leaderSeen(1, 10)
	expect(t, r.answers[2], "no_leader/unknown")
}

// TestLeadersRefusals: that the leader's node stops, or does not lead any more, is not
// this node's state.
func TestLeadersRefusals(t *testing.T) {
	r, l := follower(t)
	r.put(1, "a", "b", "c")
	r.core.relayed(l.tickets[0], 0, []*messages.Result{
		{Error: messages.NewError(messages.Code_CODE_NOT_LEADER, "").Detail},
		{Error: messages.UnknownOutcome(messages.Code_CODE_NODE_STOPPING, "").Detail},
		{Error: messages.NewError(messages.Code_CODE_LEASE_CONFLICT, "").Detail},
	})
	expect(t, r.answers[1], "no_leader/not_applied", "no_leader/unknown", "lease_conflict/not_applied")
}

func TestRelayDeadline(t *testing.T) {
	r, l := follower(t)
	r.put(1, "a") // 1,000 ms
	r.nowMs += 1_000
	r.core.tick()
	expect(t, r.answers[1]) // the leader's own answer may be on its way
	r.nowMs += relayGraceMs
	r.core.tick()
	expect(t, r.answers[1], "timeout/unknown")
	r.core.relayed(l.tickets[0], 0, ok(1))
	expect(t, r.answers[1], "timeout/unknown")
}

func TestRelaysAreBounded(t *testing.T) {
	r, l := follower(t)
	r.put(1, "a", "b", "c")
	r.put(2, "d", "e")
	expect(t, r.answers[2], "overloaded/not_applied", "overloaded/not_applied")
	r.core.relayed(l.tickets[0], 0, ok(3))
	r.put(3, "d", "e")
	if len(l.passed) != 2 {
		t.Error("nothing goes any more")
	}
}

func TestStopEndsRelays(t *testing.T) {
	r, _ := follower(t)
	r.put(1, "a")
	r.core.stop()
	expect(t, r.answers[1], "node_stopping/unknown")
	r.put(2, "b")
	expect(t, r.answers[2], "node_stopping/not_applied")
}

// TestBarrierIsAskedAgain: a barrier that was asked of a leader that is gone is asked of
// the next at once, not when its time is up.
func TestBarrierIsAskedAgain(t *testing.T) {
	r, _ := follower(t)
	r.core.readBarrier("client", &messages.ReadBarrier{RequestId: 1, TimeoutMs: 5_000})
	r.run()
	if len(r.reads) != 1 {
		t.Fatalf("%v", r.reads)
	}
	r.core.leaderSeen(0, 8)
	r.core.leaderSeen(3, 9)
	r.run()
	if len(r.reads) != 2 {
		t.Fatalf("attempts %v", r.reads)
	}
	r.core.barrierDone(r.reads[0], errors.New("the old one, at last"))
	r.core.barrierDone(r.reads[1], nil)
	if b := r.barriers[1]; b == nil || b.Error != nil {
		t.Errorf("%v", b)
	}
}
