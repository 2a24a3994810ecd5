package expiry

import (
	"testing"

	"github.com/concord-kv/concord/messages"
)

// rig plays apply, replica and the clock.
type rig struct {
	t         *testing.T
	core      *core
	nowMs     int64
	questions []*messages.DueLeases
	proposals []*messages.Propose
	ticks     []*messages.Propose
	metered   [4]int
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, nowMs: 5_000}
	r.core = newCore(1_000, 20, LeasesPerSecondDefault, r, r)
	return r
}

func (r *rig) askDue(m *messages.DueLeases) { r.questions = append(r.questions, m) }
func (r *rig) propose(m *messages.Propose) {
	if m.GetCommands()[0].GetTick() != nil {
		r.ticks = append(r.ticks, m)
		return
	}
	r.proposals = append(r.proposals, m)
}
func (r *rig) Expired(due, expired, skipped int, keys uint64) {
	r.metered[0] += due
	r.metered[1] += expired
	r.metered[2] += skipped
	r.metered[3] += int(keys)
}

// own: the lease clock is 100,000 at 5,000 monotonic.
func (r *rig) own() {
	r.core.clockOwned(&messages.ClockOwned{Owned: true, Epoch: 3, ClockMs: 100_000, MonotonicMs: 5_000})
}

func (r *rig) pass(ms int64) {
	for end := r.nowMs + ms; r.nowMs < end; {
		r.nowMs = min(r.nowMs+20, end)
		r.core.tick(r.nowMs)
	}
}

func (r *rig) question() *messages.DueLeases {
	r.t.Helper()
	if len(r.questions) == 0 {
		r.t.Fatal("nothing was asked")
	}
	q := r.questions[0]
	r.questions = r.questions[1:]
	return q
}

func (r *rig) answer(q *messages.DueLeases, leases int, nextMs int64) {
	m := &messages.DueLeasesReply{RequestId: q.GetRequestId(), NextDeadlineMs: nextMs}
	for i := range leases {
		m.Pairs = append(m.Pairs, &messages.ExpireLeases_Pair{LeaseId: uint64(i + 1)})
	}
	r.core.due(m)
}

// commit answers every proposal: each lease had so many keys.
func (r *rig) commit(keys int) (leases int) {
	proposals := r.proposals
	r.proposals = nil
	for _, p := range proposals {
		m := &messages.Proposed{RequestId: p.GetRequestId()}
		for _, c := range p.GetCommands() {
			n := len(c.GetExpireLeases().GetPairs())
			leases += n
			m.Results = append(m.Results, &messages.Result{Answer: &messages.Result_ExpireLeases{
				ExpireLeases: &messages.ExpireLeasesResult{Expired: uint32(n), KeysDeleted: uint64(n * keys)},
			}})
		}
		r.core.proposed(m)
	}
	return leases
}

func (r *rig) fail() {
	proposals := r.proposals
	r.proposals = nil
	for _, p := range proposals {
		m := &messages.Proposed{RequestId: p.GetRequestId()}
		for range p.GetCommands() {
			m.Results = append(m.Results, &messages.Result{
				Error: messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, "").Detail,
			})
		}
		r.core.proposed(m)
	}
}

func TestOnlyTheOwnerWorks(t *testing.T) {
	r := newRig(t)
	r.pass(5_000)
	if len(r.questions)+len(r.ticks) > 0 {
		t.Fatal("it works without owning the clock")
	}
	r.core.clockOwned(&messages.ClockOwned{Owned: true, ClockMs: 100_000, MonotonicMs: r.nowMs})
	r.pass(20)
	q := r.question()
	r.core.clockOwned(&messages.ClockOwned{})
	r.answer(q, 3, 0)
	r.pass(5_000)
	if len(r.proposals) > 0 {
		t.Fatal("it ends leases on an answer from before it lost the clock")
	}
}

func TestLooksAtTheDeadlineAndEveryTick(t *testing.T) {
	r := newRig(t)
	r.own()
	r.pass(20)
	q := r.question()
	if q.GetClockMs() != 100_020 {
		t.Errorf("asked for %d", q.GetClockMs())
	}
	r.answer(q, 0, 100_500)
	r.pass(460)
	if len(r.questions) > 0 {
		t.Fatal("it looks before the deadline")
	}
	r.pass(20)
	r.answer(r.question(), 0, 200_000)
	r.pass(980)
	if len(r.questions) > 0 {
		t.Fatal("it looks within the tick")
	}
	r.pass(20)
	r.answer(r.question(), 0, 200_000)
	// A short lease is granted: apply says so.
	r.core.earliest(&messages.EarliestDeadline{DeadlineMs: r.core.clock() + 100})
	r.pass(80)
	if len(r.questions) > 0 {
		t.Fatal("it looks before the new deadline")
	}
	r.pass(20)
	r.question()
}

func TestTicks(t *testing.T) {
	r := newRig(t)
	r.own()
	r.pass(980)
	if len(r.ticks) != 0 {
		t.Fatal("a tick too early")
	}
	r.pass(3_000)
	if len(r.ticks) != 1 {
		t.Fatalf("%d ticks, and none was answered", len(r.ticks))
	}
	r.core.proposed(&messages.Proposed{RequestId: r.ticks[0].GetRequestId(), Results: []*messages.Result{{
		Error: messages.NewError(messages.Code_CODE_OVERLOADED, "").Detail,
	}}})
	r.pass(20)
	if len(r.ticks) != 2 {
		t.Fatal("no tick after one that failed")
	}
	r.pass(answerWaitMs)
	if len(r.ticks) != 3 {
		t.Fatal("a lost answer ends the ticks for ever")
	}
}

func TestBatches(t *testing.T) {
	r := newRig(t)
	r.own()
	r.pass(20)
	q := r.question()
	if q.GetLimit() != 400 {
		t.Fatalf("asked for %d leases", q.GetLimit())
	}
	r.answer(q, 400, 100_000)
	if len(r.proposals) != 1 {
		t.Fatalf("%d proposals", len(r.proposals))
	}
	next := uint64(1)
	for _, p := range r.proposals {
		if len(p.GetCommands()) != 8 {
			t.Fatalf("%d commands share a proposal", len(p.GetCommands()))
		}
		for _, c := range p.GetCommands() {
			for _, pair := range c.GetExpireLeases().GetPairs() {
				if pair.GetLeaseId() != next {
					t.Fatalf("lease %d, want %d: oldest first", pair.GetLeaseId(), next)
				}
				next++
			}
		}
	}
	r.pass(200)
	if len(r.questions) > 0 {
		t.Fatal("it asks while a wave is out")
	}
	if n := r.commit(1); n != 400 {
		t.Fatalf("%d leases", n)
	}
	r.answer(r.question(), 51, 0) // at once: there was more
	if len(r.proposals) != 1 || len(r.proposals[0].GetCommands()) != 2 {
		t.Fatalf("51 leases: %v", r.proposals)
	}
	r.commit(1)
	r.pass(200)
	if len(r.questions) > 0 || r.metered != [4]int{451, 451, 0, 451} {
		t.Errorf("questions %v, metered %v", r.questions, r.metered)
	}
}

// TestFailedExpiryIsRetried: proposals fail five times, whatever became of them;
// each time the leases are found due again.
func TestFailedExpiryIsRetried(t *testing.T) {
	r := newRig(t)
	r.own()
	for range 5 {
		r.pass(failureWaitMs + 20)
		r.answer(r.question(), 3, 0)
		r.fail()
		r.pass(failureWaitMs - 20)
		if len(r.questions) > 0 {
			t.Fatal("no pause after a failure")
		}
	}
	r.pass(40)
	r.answer(r.question(), 3, 0)
	if r.commit(1) != 3 {
		t.Fatal("the leases were not proposed again")
	}
}

func TestLostAnswersAreGivenUp(t *testing.T) {
	r := newRig(t)
	r.own()
	r.pass(20)
	r.answer(r.question(), 3, 0)
	r.pass(answerWaitMs + 20)
	r.question() // the proposals were not answered
	r.pass(answerWaitMs + 20)
	r.question() // nor was this question
}

// TestHeavyLeases: when commands delete many keys, fewer share an entry.
func TestHeavyLeases(t *testing.T) {
	r := newRig(t)
	r.own()
	r.pass(20)
	for _, want := range []uint32{400, 200, 100, 50, 50} {
		q := r.question()
		if q.GetLimit() != want {
			t.Fatalf("asked for %d leases, want %d", q.GetLimit(), want)
		}
		r.answer(q, int(want), 1)
		r.commit(100)
	}
	r.answer(r.question(), 50, 1)
	r.commit(1)
	if q := r.question(); q.GetLimit() != 100 {
		t.Errorf("light again: asked for %d", q.GetLimit())
	}
}

func TestIndexSteps(t *testing.T) {
	r := newRig(t)
	r.own()
	r.pass(20)
	for range 3 {
		q := r.question()
		r.core.due(&messages.DueLeasesReply{RequestId: q.GetRequestId(), IndexSteps: []*messages.StepIndex{{Name: "i"}}})
		if len(r.proposals) != 1 || r.proposals[0].GetCommands()[0].GetStepIndex().GetName() != "i" {
			t.Fatalf("proposals %v", r.proposals)
		}
		p := r.proposals[0]
		r.proposals = nil
		r.core.proposed(&messages.Proposed{RequestId: p.GetRequestId(), Results: []*messages.Result{{}}})
		r.pass(20)
	}
}

// TestStormLeavesRoomForOthers: however many leases are due, only so many are ended a
// second, and ticks that come late make no burst.
func TestStormLeavesRoomForOthers(t *testing.T) {
	r := newRig(t)
	r.own()
	ended := 0
	waves := func() (n int) {
		for len(r.questions) > 0 {
			r.answer(r.question(), 400, 1)
			ended += r.commit(1)
			n++
		}
		return n
	}
	for range 50 {
		r.pass(20)
		if n := waves(); n > 2*LeasesPerSecondDefault/50/400+1 {
			t.Fatalf("%d waves of 400 in one tick", n)
		}
	}
	if ended < LeasesPerSecondDefault*9/10 || ended > LeasesPerSecondDefault*11/10 {
		t.Errorf("%d leases in a second, at most %d were to be", ended, LeasesPerSecondDefault)
	}
	r.nowMs += 10_000
	r.core.tick(r.nowMs)
	if n := waves(); n > 2*LeasesPerSecondDefault/50/400+1 {
		t.Errorf("%d waves of 400 after a tick that was late", n)
	}
}
