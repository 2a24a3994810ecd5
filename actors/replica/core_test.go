package replica

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// rig drives a core: it plays the log, apply and the clients, and writes down what
// the core decides.
type rig struct {
	t     *testing.T
	core  *core
	nowMs int64
	nonce uint64

	sent     []sent   // entries proposed and not answered
	reads    []uint64 // attempts at a barrier, not answered
	flushes  int
	asked    int
	owned    []*messages.ClockOwned
	leaders  []*messages.LeaderChanged
	answers  map[uint64][]*messages.Result // by request id, in command order
	barriers map[uint64]*messages.BarrierReached
}

type sent struct {
	entry uint64
	msg   *messages.Entry
}

func newRig(t *testing.T, limits Limits) *rig {
	r := &rig{t: t, nowMs: 1_000, nonce: 100, answers: map[uint64][]*messages.Result{}, barriers: map[uint64]*messages.BarrierReached{}}
	r.core = newCore(1, limits, func() int64 { return r.nowMs }, func() uint64 { r.nonce++; return r.nonce }, r, quiet{})
	return r
}

// lead makes the core leader and owner: clock 50,000 at 1,000 monotonic.
func (r *rig) lead() {
	r.t.Helper()
	r.core.clockOwner(&messages.ClockOwner{Epoch: 4, ReplicaId: 9, Nonce: 1})
	r.core.leaderSeen(1, 7)
	r.answerClaim(5, 50_000)
}

func (r *rig) answerClaim(epoch uint64, clockMs int64) {
	r.t.Helper()
	e := r.take()
	if len(e.msg.GetCommands()) != 1 || e.msg.GetCommands()[0].GetClaimClock() == nil {
		r.t.Fatalf("not a claim: %v", e.msg)
	}
	r.core.entryDone(e.entry, []*messages.Result{{Answer: &messages.Result_ClaimClock{
		ClaimClock: &messages.ClaimClockResult{Epoch: epoch, ClockMs: clockMs},
	}}}, nil)
	r.run()
}

// run gives the core the flush it asked for.
func (r *rig) run() {
	for r.flushes > 0 {
		r.flushes = 0
		r.core.flush()
	}
}

func (r *rig) take() sent {
	r.t.Helper()
	if len(r.sent) == 0 {
		r.t.Fatal("no entry was proposed")
	}
	e := r.sent[0]
	r.sent = r.sent[1:]
	return e
}

// commit applies an entry: a put's result carries the stamp as its revision.
func (r *rig) commit(e sent, code func(i int) messages.Code) {
	results := make([]*messages.Result, len(e.msg.GetCommands()))
	for i, cmd := range e.msg.GetCommands() {
		results[i] = &messages.Result{Revision: uint64(cmd.GetStampMs())}
		if code != nil && code(i) != messages.Code_CODE_OK {
			results[i] = &messages.Result{Error: messages.NewError(code(i), "").Detail}
		}
	}
	r.core.entryDone(e.entry, results, nil)
	r.run()
}

func (r *rig) put(id uint64, keys ...string) {
	m := &messages.Propose{RequestId: id, TimeoutMs: 1_000}
	for _, k := range keys {
		m.Commands = append(m.Commands, put(k))
	}
	r.core.propose("client", m)
}

func put(key string) *messages.Command {
	return &messages.Command{Op: &messages.Command_Put{Put: &messages.Put{Key: []byte(key), Value: []byte("v")}}}
}

func tickCommand() *messages.Command {
	return &messages.Command{Op: &messages.Command_Tick{Tick: &messages.Tick{}}}
}

// keys shows an entry: its keys in order, "tick" for a tick.
func (e sent) keys() string {
	var b []string
	for _, c := range e.msg.GetCommands() {
		switch {
		case c.GetPut() != nil:
			b = append(b, string(c.GetPut().GetKey()))
		case c.GetTick() != nil:
			b = append(b, "tick")
		default:
			b = append(b, fmt.Sprintf("%T", c.GetOp()))
		}
	}
	return strings.Join(b, " ")
}

func (r *rig) code(id uint64, i int) string {
	r.t.Helper()
	if i >= len(r.answers[id]) || r.answers[id][i] == nil {
		return "none"
	}
	e := r.answers[id][i].GetError()
	if e == nil {
		return "ok"
	}
	return messages.CodeName(e.GetCode()) + "/" + messages.OutcomeName(e.GetOutcome())
}

func (r *rig) wantCode(id uint64, i int, want string) {
	r.t.Helper()
	if got := r.code(id, i); got != want {
		r.t.Errorf("request %d, command %d: answered %s, want %s", id, i, got, want)
	}
}

func (r *rig) propose(entry uint64, payload []byte) {
	m := &messages.Entry{}
	if err := proto.Unmarshal(payload, m); err != nil {
		r.t.Fatal(err)
	}
	r.sent = append(r.sent, sent{entry, m})
}
func (r *rig) readIndex(attempt uint64)                  { r.reads = append(r.reads, attempt) }
func (r *rig) flushSoon()                                { r.flushes++ }
func (r *rig) askClockOwner()                            { r.asked++ }
func (r *rig) clockOwned(m *messages.ClockOwned)         { r.owned = append(r.owned, m) }
func (r *rig) leaderChanged(m *messages.LeaderChanged)   { r.leaders = append(r.leaders, m) }
func (r *rig) reached(_ any, m *messages.BarrierReached) { r.barriers[m.GetRequestId()] = m }
func (r *rig) proposed(_ any, m *messages.Proposed) {
	for i, res := range m.GetResults() {
		at := int(m.GetFirst()) + i
		for len(r.answers[m.GetRequestId()]) <= at {
			r.answers[m.GetRequestId()] = append(r.answers[m.GetRequestId()], nil)
		}
		if r.answers[m.GetRequestId()][at] != nil {
			r.t.Errorf("request %d: command %d was answered twice", m.GetRequestId(), at)
		}
		r.answers[m.GetRequestId()][at] = res
	}
}

type quiet struct{}

func (quiet) Committed(int, int, int64)  {}
func (quiet) Refused(messages.Code, int) {}

// TestPackMeansTheSame holds the hand-written encoding to the generated one.
func TestPackMeansTheSame(t *testing.T) {
	var p packer
	want := &messages.Entry{Epoch: 3, ReplicaId: 1, Nonce: 1 << 63}
	p.begin(3, 1, 1<<63)
	for i, stamp := range []int64{0, 1, 127, 128, 1 << 40} {
		c := put(strings.Repeat("k", i+1))
		c.SessionId = uint64(i)
		b, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		p.add(b, stamp)
		c.StampMs = stamp
		want.Commands = append(want.Commands, c)
	}
	got := &messages.Entry{}
	if err := proto.Unmarshal(p.bytes(), got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	canonical, _ := proto.Marshal(want)
	if len(canonical) != len(p.bytes()) {
		t.Errorf("%d bytes, proto.Marshal takes %d", len(p.bytes()), len(canonical))
	}
	if p.begin(0, 0, 0); !bytes.Equal(p.bytes(), nil) {
		t.Errorf("an empty entry has %d bytes", len(p.bytes()))
	}
}

func TestGroupCommit(t *testing.T) {
	r := newRig(t, Limits{EntryCommandsMax: 3})
	r.lead()
	for i := range 10 {
		r.put(uint64(i), fmt.Sprint("k", i))
	}
	r.run()
	// Two entries in flight; the rest waits.
	if len(r.sent) != 2 || r.sent[0].keys() != "k0 k1 k2" || r.sent[1].keys() != "k3 k4 k5" {
		t.Fatalf("in flight: %v", r.sent)
	}
	r.commit(r.take(), nil)
	if len(r.sent) != 2 || r.sent[1].keys() != "k6 k7 k8" {
		t.Fatalf("after one came back: %v", r.sent)
	}
	for len(r.sent) > 0 {
		r.commit(r.take(), nil)
	}
	for i := range 10 {
		r.wantCode(uint64(i), 0, "ok")
	}
}

// TestSmallEntriesWait: while an entry is in flight few commands wait for it, unless it
// takes long or they are the node's own; half an entry of them do not.
func TestSmallEntriesWait(t *testing.T) {
	r := newRig(t, Limits{EntryCommandsMax: 4})
	r.lead()
	r.put(1, "a")
	r.run()
	r.put(2, "b")
	r.run()
	if len(r.sent) != 1 {
		t.Fatalf("in flight: %v", r.sent)
	}
	r.put(3, "c")
	r.run()
	if len(r.sent) != 2 || r.sent[1].keys() != "b c" {
		t.Fatalf("half an entry waits; in flight: %v", r.sent)
	}
	r.commit(r.take(), nil)
	r.put(4, "d")
	r.run()
	if len(r.sent) != 1 {
		t.Fatalf("in flight: %v", r.sent)
	}
	r.nowMs += heldMsMax
	r.core.tick()
	r.run()
	if len(r.sent) != 2 || r.sent[1].keys() != "d" {
		t.Fatalf("the first takes long; in flight: %v", r.sent)
	}
	r.commit(r.take(), nil)
	r.core.propose("expiry", &messages.Propose{RequestId: 90, Commands: []*messages.Command{tickCommand()}})
	r.run()
	if len(r.sent) != 2 || r.sent[1].keys() != "tick" {
		t.Fatalf("the node's own command waits; in flight: %v", r.sent)
	}
}

func TestEntryEndsAtItsBytes(t *testing.T) {
	r := newRig(t, Limits{EntryBytesMax: 100, EntriesInFlight: 8})
	r.lead()
	big := strings.Repeat("b", 300)
	r.put(1, "a", "b", big, "c")
	r.run()
	var got []string
	for len(r.sent) > 0 {
		e := r.take()
		got = append(got, e.keys())
		r.commit(e, nil)
	}
	if want := "a b|" + big + "|c"; strings.Join(got, "|") != want {
		t.Errorf("entries %q", got)
	}
}

func TestStampsStartAtTheClaimAndFollowTheMonotonicClock(t *testing.T) {
	r := newRig(t, Limits{})
	r.core.clockOwner(&messages.ClockOwner{Epoch: 4, ReplicaId: 9, Nonce: 1})
	r.core.leaderSeen(1, 7)
	claim := r.sent[0].msg
	if k := claim.GetCommands()[0].GetClaimClock(); k.GetExpectedEpoch() != 4 || k.GetReplicaId() != 1 || k.GetNonce() != 101 {
		t.Fatalf("claim %v", k)
	}
	if claim.GetCommands()[0].GetStampMs() != 0 {
		t.Fatal("a claim carries no stamp")
	}
	r.put(1, "early")
	r.run()
	if len(r.sent) != 1 {
		t.Fatal("a client's command went before the claim was applied")
	}
	r.nowMs = 1_500
	r.answerClaim(5, 50_000)
	e := r.take()
	r.commit(e, nil)
	if e.keys() != "early" || e.msg.GetEpoch() != 5 || e.msg.GetNonce() != 101 || e.msg.GetCommands()[0].GetStampMs() != 50_000 {
		t.Fatalf("first entry %v", e.msg)
	}
	r.nowMs = 1_750
	r.put(2, "later")
	r.run()
	if e := r.take(); e.msg.GetCommands()[0].GetStampMs() != 50_250 {
		t.Fatalf("stamp %d, want 50,250", e.msg.GetCommands()[0].GetStampMs())
	}
	if len(r.owned) != 1 || !r.owned[0].GetOwned() || r.owned[0].GetClockMs() != 50_000 || r.owned[0].GetMonotonicMs() != 1_500 {
		t.Errorf("expiry heard %v", r.owned)
	}
}

// TestStaleClock: another node claimed the clock while two entries were in flight.
// Their commands come again in order, ahead of what waits, under the next claim;
// expiry's own do not.
func TestStaleClock(t *testing.T) {
	r := newRig(t, Limits{EntryCommandsMax: 2})
	r.lead()
	r.core.propose("expiry", &messages.Propose{RequestId: 90, Commands: []*messages.Command{tickCommand()}})
	r.put(1, "a")
	r.put(2, "b", "c")
	r.put(3, "d")
	r.run()
	e1, e2 := r.take(), r.take()
	if e1.keys() != "tick a" || e2.keys() != "b c" {
		t.Fatalf("in flight: %q, %q", e1.keys(), e2.keys())
	}
	r.core.clockOwner(&messages.ClockOwner{Epoch: 6, ReplicaId: 3, Nonce: 77})
	if o := r.owned[len(r.owned)-1]; o.GetOwned() {
		t.Fatal("it still owns the clock")
	}
	r.nowMs += 50
	r.core.tick()
	claim := r.take()
	if k := claim.msg.GetCommands()[0].GetClaimClock(); k.GetExpectedEpoch() != 6 || k.GetNonce() != 102 {
		t.Fatalf("the next claim: %v", k)
	}
	stale := func(int) messages.Code { return messages.Code_CODE_STALE_CLOCK }
	r.commit(e1, stale)
	r.commit(e2, stale)
	r.wantCode(90, 0, "stale_clock/not_applied")
	r.wantCode(1, 0, "none")
	if len(r.sent) != 0 {
		t.Fatalf("sent before the claim: %v", r.sent)
	}
	r.nowMs += 10
	r.sent = append(r.sent, claim)
	r.answerClaim(7, 60_000)
	f1, f2 := r.take(), r.take()
	if f1.keys() != "a b" || f2.keys() != "c d" || f1.msg.GetEpoch() != 7 {
		t.Fatalf("again: %q, %q, epoch %d", f1.keys(), f2.keys(), f1.msg.GetEpoch())
	}
	r.commit(f1, nil)
	r.commit(f2, nil)
	for id, n := range map[uint64]int{1: 1, 2: 2, 3: 1} {
		for i := range n {
			r.wantCode(id, i, "ok")
		}
	}
}

func TestOwnStaleClaimIsNotOwnership(t *testing.T) {
	r := newRig(t, Limits{})
	r.core.clockOwner(&messages.ClockOwner{Epoch: 4, ReplicaId: 9, Nonce: 1})
	r.core.leaderSeen(1, 7)
	// Ours applied as epoch 5, and replica 2's as epoch 6, in one batch: apply tells
	// of the last before our answer comes.
	r.core.clockOwner(&messages.ClockOwner{Epoch: 6, ReplicaId: 2, Nonce: 8})
	r.answerClaim(5, 10)
	if len(r.owned) != 0 || r.core.clock.owned {
		t.Fatal("it took the clock that another node owns")
	}
	if k := r.take().msg.GetCommands()[0].GetClaimClock(); k.GetExpectedEpoch() != 6 {
		t.Errorf("it claims from epoch %d", k.GetExpectedEpoch())
	}
}

// TestClaimDuringReplay: a leader that has just started knows an old epoch. It does not
// wait for a tick once its claim has been refused.
func TestClaimDuringReplay(t *testing.T) {
	r := newRig(t, Limits{})
	r.core.clockOwner(&messages.ClockOwner{})
	r.core.leaderSeen(1, 7)
	e := r.take()
	for epoch := uint64(1); epoch < 4; epoch++ {
		r.core.clockOwner(&messages.ClockOwner{Epoch: epoch, ReplicaId: 1, Nonce: epoch})
	}
	r.core.entryDone(e.entry, []*messages.Result{{Error: messages.NewError(messages.Code_CODE_CLAIM_REFUSED, "").Detail}}, nil)
	if k := r.sent[0].msg.GetCommands()[0].GetClaimClock(); k.GetExpectedEpoch() != 3 {
		t.Fatalf("it claims from epoch %d", k.GetExpectedEpoch())
	}
	r.answerClaim(4, 10)
	if !r.core.clock.owned {
		t.Fatal("not the owner")
	}
}

func TestClaimIsTriedAgain(t *testing.T) {
	r := newRig(t, Limits{})
	r.core.leaderSeen(1, 7)
	if len(r.sent) != 0 || r.asked == 0 {
		t.Fatal("it claims without knowing the epoch")
	}
	r.core.clockOwner(&messages.ClockOwner{Epoch: 4})
	e := r.take()
	r.core.entryDone(e.entry, nil, messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, ""))
	r.core.tick()
	if len(r.sent) != 0 {
		t.Fatal("no pause between claims")
	}
	r.nowMs += 50
	r.core.tick()
	e = r.take()
	r.core.entryDone(e.entry, []*messages.Result{{Error: messages.NewError(messages.Code_CODE_CLAIM_REFUSED, "").Detail}}, nil)
	r.core.clockOwner(&messages.ClockOwner{Epoch: 5, ReplicaId: 1, Nonce: 101}) // the first attempt had applied
	r.nowMs += 50
	r.core.tick()
	if k := r.sent[0].msg.GetCommands()[0].GetClaimClock(); k.GetExpectedEpoch() != 5 || k.GetNonce() != 103 {
		t.Fatalf("third claim %v", k)
	}
	r.answerClaim(6, 1)
	if !r.core.clock.owned {
		t.Fatal("not the owner")
	}
}

// TestClaimThatIsLost: the log says nothing of a claim. The next follows long before the
// log gives up, and what the first was good for, late, changes nothing.
func TestClaimThatIsLost(t *testing.T) {
	r := newRig(t, Limits{})
	r.core.clockOwner(&messages.ClockOwner{Epoch: 4, ReplicaId: 9, Nonce: 1})
	r.core.leaderSeen(1, 7)
	lost := r.take()
	r.nowMs += 999
	r.core.tick()
	if len(r.sent) != 0 {
		t.Fatal("it does not wait for its claim")
	}
	r.nowMs++
	r.core.tick()
	second := r.take()
	if k := second.msg.GetCommands()[0].GetClaimClock(); k.GetExpectedEpoch() != 4 || k.GetNonce() != 102 {
		t.Fatalf("second claim %v", k)
	}
	// The first had applied after all, and its answer comes now.
	r.core.entryDone(lost.entry, []*messages.Result{{Answer: &messages.Result_ClaimClock{
		ClaimClock: &messages.ClaimClockResult{Epoch: 5, ClockMs: 10},
	}}}, nil)
	if r.core.clock.owned {
		t.Fatal("a claim that was given up made it the owner")
	}
	r.core.clockOwner(&messages.ClockOwner{Epoch: 5, ReplicaId: 1, Nonce: 101})
	r.core.entryDone(second.entry, []*messages.Result{{Error: messages.NewError(messages.Code_CODE_CLAIM_REFUSED, "").Detail}}, nil)
	if k := r.sent[0].msg.GetCommands()[0].GetClaimClock(); k.GetExpectedEpoch() != 5 || k.GetNonce() != 103 {
		t.Fatalf("third claim %v", k)
	}
	r.answerClaim(6, 20)
	if !r.core.clock.owned {
		t.Fatal("not the owner")
	}
}

func TestNotLeading(t *testing.T) {
	r := newRig(t, Limits{EntriesInFlight: 1})
	r.put(1, "a")
	r.wantCode(1, 0, "no_leader/not_applied")
	r.core.leaderSeen(2, 7)
	r.put(2, "a", "b")
	r.wantCode(2, 1, "not_leader/not_applied")
	r.core.clockOwner(&messages.ClockOwner{Epoch: 4})
	r.core.leaderSeen(1, 8)
	r.answerClaim(5, 1)
	r.put(3, "in flight")
	r.run()
	r.put(4, "waits")
	r.run()
	r.core.leaderSeen(0, 9)
	r.wantCode(4, 0, "no_leader/not_applied")
	r.wantCode(3, 0, "none")
	e := r.take()
	r.core.entryDone(e.entry, nil, messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, ""))
	r.wantCode(3, 0, "timeout/unknown")
	if len(r.leaders) != 3 || r.leaders[1].GetIsLeader() != true || r.leaders[2].GetIsLeader() {
		t.Errorf("subscribers heard %v", r.leaders)
	}
}

// TestOverload: clients are refused beyond the bound, with a time to wait; this
// node's own commands are not, and go first.
func TestOverload(t *testing.T) {
	r := newRig(t, Limits{EntryCommandsMax: 2, EntriesInFlight: 1, WaitingCommandsMax: 4})
	r.lead()
	r.put(1, "a", "b")
	r.run()
	r.put(2, "c", "d", "e", "f")
	r.put(3, "g")
	r.wantCode(3, 0, "overloaded/not_applied")
	if d := r.answers[3][0].GetError(); d.GetRetryAfterMs() == 0 || d.GetLimit() != 4 {
		t.Errorf("refused with %v", d)
	}
	r.core.propose("expiry", &messages.Propose{RequestId: 90, Commands: []*messages.Command{tickCommand()}})
	r.commit(r.take(), nil)
	if e := r.take(); e.keys() != "tick c" {
		t.Errorf("the next entry is %q", e.keys())
	}
}

// TestTickIsNotStarved: with clients always filling every entry, each tick is in
// the very next one.
func TestTickIsNotStarved(t *testing.T) {
	r := newRig(t, Limits{EntryCommandsMax: 4, EntriesInFlight: 1, WaitingCommandsMax: 8})
	r.lead()
	id := uint64(0)
	for round := range 50 {
		for range 12 {
			id++
			r.put(id, "k")
		}
		r.core.propose("expiry", &messages.Propose{RequestId: 10_000 + uint64(round), Commands: []*messages.Command{tickCommand()}})
		r.run()
		if round > 0 {
			e := r.take()
			r.commit(e, nil)
			if e = r.sent[0]; !strings.HasPrefix(e.keys(), "tick") {
				t.Fatalf("round %d: the next entry is %q", round, e.keys())
			}
		}
	}
}

func TestDeadlines(t *testing.T) {
	r := newRig(t, Limits{EntryCommandsMax: 2, EntriesInFlight: 1})
	r.lead()
	r.put(1, "a", "b", "c")
	r.run()
	r.nowMs += 999
	r.core.tick()
	r.wantCode(1, 0, "none")
	r.nowMs++
	r.core.tick()
	r.wantCode(1, 0, "timeout/unknown")
	r.wantCode(1, 1, "timeout/unknown")
	r.wantCode(1, 2, "timeout/not_applied")
	r.core.tick()           // nothing is answered twice
	r.commit(r.take(), nil) // nor when the result comes after all
	if len(r.sent) != 0 {
		t.Error("a command whose time is up was sent")
	}
}

func TestFailureGoesToEachCommand(t *testing.T) {
	r := newRig(t, Limits{})
	r.lead()
	r.put(1, "a", "b")
	r.put(2, "c")
	r.run()
	e := r.take()
	r.core.entryDone(e.entry, nil, messages.NewError(messages.Code_CODE_NO_LEADER, "dropped"))
	r.wantCode(1, 1, "no_leader/not_applied")
	r.wantCode(2, 0, "no_leader/not_applied")
}

func TestOldTermsDoNotHoldBackNewEntries(t *testing.T) {
	r := newRig(t, Limits{EntriesInFlight: 1})
	r.lead()
	r.put(1, "lost")
	r.run()
	lost := r.take()
	r.core.leaderSeen(0, 8)
	r.core.leaderSeen(1, 9)
	r.answerClaim(6, 50_001)
	r.put(2, "new")
	r.run()
	r.commit(r.take(), nil)
	r.wantCode(2, 0, "ok")
	r.core.entryDone(lost.entry, nil, messages.UnknownOutcome(messages.Code_CODE_TIMEOUT, ""))
	r.wantCode(1, 0, "timeout/unknown")
}

func TestBarriersShare(t *testing.T) {
	r := newRig(t, Limits{BarriersMax: 4})
	ask := func(id uint64) { r.core.readBarrier("client", &messages.ReadBarrier{RequestId: id, TimeoutMs: 500}) }
	ask(1)
	ask(2)
	r.run()
	ask(3)
	r.run()
	if len(r.reads) != 1 {
		t.Fatalf("%d barriers at once", len(r.reads))
	}
	r.core.barrierDone(r.reads[0], nil)
	r.run()
	if r.barriers[1] == nil || r.barriers[2] == nil || r.barriers[3] != nil {
		t.Fatal("those that came before it, and they alone, are released")
	}
	// The second fails: tried again at a tick, until the reader's own deadline.
	r.core.barrierDone(r.reads[1], messages.NewError(messages.Code_CODE_NO_QUORUM, ""))
	r.run()
	if len(r.reads) != 2 {
		t.Fatal("tried again without a pause")
	}
	r.core.tick()
	if len(r.reads) != 3 {
		t.Fatal("not tried again")
	}
	r.nowMs += 500
	r.core.tick()
	if c := r.barriers[3].GetError().GetCode(); c != messages.Code_CODE_NO_QUORUM {
		t.Errorf("the reader is told %v", c)
	}
	for id := uint64(4); id < 9; id++ {
		ask(id)
	}
	if r.barriers[8].GetError().GetCode() != messages.Code_CODE_OVERLOADED {
		t.Error("more readers than the bound")
	}
}

func TestStop(t *testing.T) {
	r := newRig(t, Limits{EntriesInFlight: 1})
	r.lead()
	r.put(1, "in flight")
	r.run()
	r.put(2, "waits")
	r.core.readBarrier("client", &messages.ReadBarrier{RequestId: 3})
	r.core.stop()
	r.wantCode(1, 0, "node_stopping/unknown")
	r.wantCode(2, 0, "node_stopping/not_applied")
	if r.barriers[3].GetError().GetCode() != messages.Code_CODE_NODE_STOPPING {
		t.Error("the reader still waits")
	}
	r.put(4, "late")
	r.wantCode(4, 0, "node_stopping/not_applied")
}
