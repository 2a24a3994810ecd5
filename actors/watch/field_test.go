package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/concord-kv/concord/actors/watch/protocol"
	"github.com/concord-kv/concord/messages"
)

// Faults that users of systems like this one have reported, each as the hub's part
// of it. What the name says is what must not happen again.

func all(id uint64) *messages.WatchRequest {
	return &messages.WatchRequest{WatchId: id, Selector: prefix("")}
}

func known(t *testing.T, limits Limits) *world {
	w := newWorld(t, limits)
	w.settle()
	w.tick(500)
	return w
}

func TestSlowWatcherIsToldOfCompaction(t *testing.T) {
	w := known(t, Limits{})
	r := all(1)
	r.CreditEvents = 1
	c := w.watch(1, r, protocol.EndOf(0))
	for i := range 10_000 {
		w.commit(fmt.Sprintf("k%d=v", i%7))
	}
	w.settle()
	w.compactTo(9_990)
	w.compactTo(9_995) // and again: it is told once
	w.grant(c, 100_000, 1<<20)
	w.settle()
	if len(c.events) != 1 || c.endCode() != messages.Code_CODE_COMPACTED || c.end.Reason.CompactRevision != 9_990 {
		t.Fatalf("%d events, ended %v", len(c.events), c.end)
	}
	if got := protocol.PositionOf(c.end.Resume); got != protocol.EndOf(1) {
		t.Fatalf("resumes at %v", got)
	}
}

func TestIdleWatchHearsOfProgress(t *testing.T) {
	w := known(t, Limits{})
	c := w.watch(1, &messages.WatchRequest{WatchId: 1, Selector: prefix("p/")}, protocol.EndOf(0))
	for range 500 {
		w.commit("other=1")
	}
	w.tick(1_500)
	if c.at != protocol.EndOf(500) || len(c.events) != 0 {
		t.Fatalf("told of %v", c.at)
	}
	w.compactTo(490)
	// A client that resumes where it was told to is not too late.
	again := w.watch(2, &messages.WatchRequest{WatchId: 1, Selector: prefix("p/")}, c.at)
	if again.refused != nil {
		t.Fatal(again.refused)
	}
}

func TestWatchThatReplaysWithoutMatchHearsOfProgress(t *testing.T) {
	w := known(t, Limits{ReplayEventsMax: 10})
	for range 100 {
		w.commit("other=1")
	}
	c := w.watch(1, &messages.WatchRequest{WatchId: 1, Selector: prefix("p/")}, protocol.EndOf(0))
	w.step()
	for range 5 {
		w.step()
	}
	w.tick(1_500)
	if c.at.Revision < 10 || c.at.Revision >= 100 || c.ready {
		t.Fatalf("half way, told of %v, ready %v", c.at, c.ready)
	}
	w.settle()
	if !c.ready || c.at != protocol.EndOf(100) {
		t.Fatalf("at the end, told of %v, ready %v", c.at, c.ready)
	}
}

func TestSnapshotInstallNeverGoesBackNorSkips(t *testing.T) {
	for _, compact := range []uint64{100, 4_000} {
		w := known(t, Limits{})
		for range 100 {
			w.commit("k=v")
		}
		c := w.watch(1, all(1), protocol.EndOf(99))
		w.settle()
		for range 4_900 {
			w.write("k=v")
		}
		w.compact = compact
		w.install()
		for i := 0; i < 10 && c.end == nil; i++ {
			w.grant(c, 1_000, 1<<20)
			w.settle()
			w.drain(1)
		}
		if compact == 100 {
			c.caughtUp()
			if len(c.events) != 4_901 {
				t.Fatalf("%d events", len(c.events))
			}
		} else if c.endCode() != messages.Code_CODE_COMPACTED || len(c.events) != 1 {
			t.Fatalf("%d events, ended %v", len(c.events), c.end)
		}
	}
}

// TestIdleWatchSurvivesInstall: a watch that has everything is not compacted away
// because it was last told something long ago.
func TestIdleWatchSurvivesInstall(t *testing.T) {
	w := known(t, Limits{})
	c := w.watch(1, &messages.WatchRequest{WatchId: 1, Selector: prefix("p/")}, protocol.EndOf(0))
	for range 100 {
		w.commit("other=1")
	}
	w.write("p/a=1")
	w.compact = 50
	w.install()
	w.settle()
	if got := c.texts(); c.end != nil || !slices.Equal(got, []string{"101.0 p/a=1"}) {
		t.Fatalf("got %v, ended %v", got, c.end)
	}
}

func TestFutureRevisionWaits(t *testing.T) {
	w := known(t, Limits{})
	w.commit("k=1")
	c := w.watch(1, all(1), protocol.EndOf(3)) // from revision 4
	gone := w.watch(1, all(2), protocol.EndOf(1_000))
	if c.started.From != 4 || c.started.Current != 1 {
		t.Fatalf("%+v", c.started)
	}
	w.tick(30_000)
	if c.batches != 0 {
		t.Fatalf("told of %v while it waits", c.at)
	}
	for i := 2; i <= 6; i++ {
		w.commit(fmt.Sprintf("k=%d", i))
	}
	if got := c.texts(); !slices.Equal(got, []string{"4.0 k=4", "5.0 k=5", "6.0 k=6"}) || !c.ready {
		t.Fatalf("got %v, ready %v", got, c.ready)
	}
	w.hub.Cancel(1, 2)
	w.collect()
	if gone.endCode() != messages.Code_CODE_CANCELLED {
		t.Fatalf("a waiting watch was not cancelled: %v", gone.end)
	}
}

func TestFutureWatchSurvivesSnapshotInstall(t *testing.T) {
	w := known(t, Limits{})
	for range 100 {
		w.commit("k=v")
	}
	c := w.watch(1, all(1), protocol.EndOf(499))
	for w.revision < 300 {
		w.write("k=v")
	}
	w.compact = 250
	w.install()
	w.settle()
	if c.batches != 0 || c.end != nil {
		t.Fatalf("%d batches, ended %v", c.batches, c.end)
	}
	for w.revision < 600 {
		w.write("k=v")
	}
	w.compact = 550 // beyond where it begins
	w.install()
	w.settle()
	if c.endCode() != messages.Code_CODE_COMPACTED {
		t.Fatalf("ended %v", c.end)
	}
}

func TestNoEventIsLostBetweenStartAndFirstEvent(t *testing.T) {
	w := known(t, Limits{})
	w.commit("k=1")
	c := w.watch(1, all(1), protocol.EndOf(w.revision)) // from now
	from := c.started.From
	w.closeSession(1)
	w.commit("k=2")
	again := w.watch(2, all(1), protocol.EndOf(from-1))
	w.settle()
	if got := again.texts(); !slices.Equal(got, []string{"2.0 k=2"}) {
		t.Fatalf("got %v", got)
	}
}

func TestResumeInsideRevision(t *testing.T) {
	w := known(t, Limits{})
	w.commit("a=1", "b=2", "c=3", "d=4", "e=5")
	for op := range uint32(5) {
		c := w.watch(1, all(uint64(op)+1), protocol.Position{Revision: 1, Op: op})
		w.settle()
		if len(c.events) != 4-int(op) {
			t.Fatalf("after op %d: %v", op, c.texts())
		}
		c.caughtUp()
	}
}

func TestRefusedWatchHarmsNoOther(t *testing.T) {
	w := known(t, Limits{WatchersPerSessionMax: 2, WatchersMax: 3})
	for range 10 {
		w.commit("k=v")
	}
	w.compactTo(5)
	one := w.watch(1, all(1), protocol.EndOf(10))
	refusals := []struct {
		id    uint64
		after uint64
		code  messages.Code
	}{
		{2, 3, messages.Code_CODE_COMPACTED},
		{1, 10, messages.Code_CODE_WATCH_EXISTS},
	}
	for _, r := range refusals {
		if c := w.watch(1, all(r.id), protocol.EndOf(r.after)); c.refused.GetCode() != r.code {
			t.Fatalf("watch %d: %v", r.id, c.refused)
		}
	}
	two := w.watch(1, all(2), protocol.EndOf(10))
	if c := w.watch(1, all(3), protocol.EndOf(10)); c.refused.GetCode() != messages.Code_CODE_WATCH_LIMIT || c.refused.Limit != 2 {
		t.Fatalf("a third of the connection: %v", c.refused)
	}
	w.watch(2, all(1), protocol.EndOf(10))
	if c := w.watch(3, all(1), protocol.EndOf(10)); c.refused.GetCode() != messages.Code_CODE_WATCH_LIMIT || c.refused.Limit != 3 {
		t.Fatalf("a fourth of the node: %v", c.refused)
	}
	w.commit("k=last")
	for _, c := range []*checker{one, two} {
		if got := c.texts(); !slices.Equal(got, []string{"11.0 k=last"}) {
			t.Fatalf("a healthy watch got %v", got)
		}
	}
}

func TestCancelledWatchesLeaveNothing(t *testing.T) {
	w := known(t, Limits{})
	for i := range 10_000 {
		r := &messages.WatchRequest{WatchId: 1, Selector: []*messages.Selector{prefix("p"), exact("k"), between("a", "b")}[i%3]}
		w.watch(1, r, protocol.EndOf(uint64(i%2)*5)) // live, and in the future
		if i%4 == 0 {
			w.closeSession(1) // it vanished
		} else {
			w.hub.Cancel(1, 1)
			w.collect()
		}
	}
	w.closeSession(1)
	h := w.hub
	if h.Watchers() != 0 || h.live.size != 0 || len(h.live.exact)+len(h.live.prefix) != 0 || h.live.ranges != nil || len(h.clients) != 0 || len(h.unready) != 0 {
		t.Fatalf("left behind: %+v", h)
	}
}

func TestBlockedWatchersAreBoundedAndCutOff(t *testing.T) {
	w := known(t, Limits{WatchersPerSessionMax: 100})
	healthy := w.watch(9, all(1), protocol.EndOf(0))
	var blocked []*checker
	for id := range uint64(100) {
		blocked = append(blocked, w.watch(1, all(id+1), protocol.EndOf(0)))
	}
	value := strings.Repeat("x", 4<<10)
	for i := range 3_000 {
		w.commit(fmt.Sprintf("k%d=%s", i%10, value))
		w.grant(healthy, 1, 5<<10)
		w.drain(9)
	}
	healthy.caughtUp()
	if n := w.inFlight[1]; n > protocol.SessionWindowBytes+100*(5<<10) {
		t.Fatalf("%d bytes are on the way to a client that does not read", n)
	}
	w.tick(31_000)
	for i, c := range blocked {
		if c.endCode() != messages.Code_CODE_SLOW_CONSUMER {
			t.Fatalf("watch %d ended %v", c.request.WatchId, c.end)
		}
		if i%20 != 0 {
			continue
		}
		again := w.watch(2, all(c.request.WatchId), protocol.PositionOf(c.end.Resume))
		for i := 0; i < 20 && len(again.events) < 3_000-len(c.events); i++ {
			w.drain(2)
			w.grant(again, 1_000, 8<<20)
			w.settle()
		}
		again.caughtUp()
		w.closeSession(2)
	}
	if healthy.end != nil {
		t.Fatalf("a healthy watch ended: %v", healthy.end)
	}
}

func TestHugeRevisionTravelsInFragments(t *testing.T) {
	w := known(t, Limits{})
	long := strings.Repeat("k", 4_000)
	changes := make([]string, 10_000)
	for i := range changes {
		changes[i] = fmt.Sprintf("%s%05d", long, i)
	}
	r := all(1)
	r.CreditEvents, r.CreditBytes = 1_000, 1<<20
	c := w.watch(1, r, protocol.EndOf(0))
	w.commit(changes...)
	for i := 0; i < 200 && len(c.events) < len(changes); i++ {
		w.drain(1)
		w.grant(c, 1_000, 1<<20)
		w.settle()
	}
	c.caughtUp()
	if len(c.events) != len(changes) || c.batches < 40 {
		t.Fatalf("%d events in %d batches", len(c.events), c.batches)
	}
}

func TestExpiryIsADeleteWithItsCause(t *testing.T) {
	w := known(t, Limits{})
	c := w.watch(1, all(1), protocol.EndOf(0))
	for _, cause := range []messages.EventCause{
		messages.EventCause_EVENT_CAUSE_EXPIRED, messages.EventCause_EVENT_CAUSE_REVOKED, messages.EventCause_EVENT_CAUSE_DELETED,
	} {
		w.commitCause("k", cause)
		e := c.events[len(c.events)-1]
		if e.Type != messages.EventType_EVENT_TYPE_DELETE || e.Cause != cause {
			t.Fatalf("got %v", e)
		}
	}
}

func TestLosingTheClusterEndsWatches(t *testing.T) {
	w := known(t, Limits{})
	w.hub.LeaderChanged(2)
	w.commit("k=1")
	c := w.watch(1, all(1), protocol.EndOf(0))
	w.settle()
	w.hub.LeaderChanged(0)
	w.tick(5_000)
	w.hub.LeaderChanged(3) // an election is no reason
	w.tick(20_000)
	if c.end != nil {
		t.Fatalf("ended %v", c.end)
	}
	w.hub.LeaderChanged(0)
	w.tick(11_000)
	if c.endCode() != messages.Code_CODE_NO_QUORUM || protocol.PositionOf(c.end.Resume) != protocol.EndOf(1) {
		t.Fatalf("ended %v", c.end)
	}
}

func TestSuspendedNodeBlamesNobody(t *testing.T) {
	w := known(t, Limits{})
	r := all(1)
	r.CreditEvents = 1
	c := w.watch(1, r, protocol.EndOf(0))
	w.commit("k=1")
	w.commit("k=2")
	w.hub.Tick(w.nowMs + 3_600_000) // an hour in one tick
	w.collect()
	if c.end != nil {
		t.Fatalf("ended %v", c.end)
	}
	w.nowMs += 3_600_000
	w.tick(31_000)
	if c.endCode() != messages.Code_CODE_SLOW_CONSUMER {
		t.Fatalf("not ended: %v", c.end)
	}
}

// TestExactCreditIsNotSlow: a consumer that has used its credit to the last event,
// with nothing more for it, is not behind.
func TestExactCreditIsNotSlow(t *testing.T) {
	w := known(t, Limits{})
	r := &messages.WatchRequest{WatchId: 1, Selector: exact("k"), CreditEvents: 1}
	c := w.watch(1, r, protocol.EndOf(0))
	w.commit("k=1")
	for range 100 {
		w.commit("other=1")
	}
	w.tick(60_000)
	if c.end != nil || c.at != protocol.EndOf(w.revision) {
		t.Fatalf("at %v, ended %v", c.at, c.end)
	}
}

func TestWatchesStartedBeforeTheHubKnows(t *testing.T) {
	w := newWorld(t, Limits{})
	for range 5 {
		w.write("k=v")
	}
	c := w.watch(1, all(1), protocol.EndOf(2))
	gone := w.watch(2, all(1), protocol.EndOf(2))
	w.closeSession(2)
	w.committed(w.events[4:]) // before the view: it has it too
	w.settle()
	c.caughtUp()
	if len(c.events) != 3 || gone.started != nil {
		t.Fatalf("%v, %v", c.texts(), gone.started)
	}
}

// TestReplayIsShared: a hundred watches behind cost about one read of the log.
func TestReplayIsShared(t *testing.T) {
	w := known(t, Limits{WatchersPerSessionMax: 1_000, ReplayEventsMax: 100})
	for range 5_000 {
		w.commit("k=v")
	}
	for i := range uint64(100) {
		w.watch(1, &messages.WatchRequest{WatchId: i + 1, Selector: exact("other")}, protocol.EndOf(i*40))
	}
	steps := 0
	for w.hub.NeedsView() || w.hub.HasReplay() {
		w.step()
		steps++
	}
	if once := 5_000 / 100; steps > 2*once+10 {
		t.Fatalf("%d steps; one read of the log takes %d", steps, once)
	}
	for _, c := range w.all() {
		if !c.ready {
			t.Fatalf("watch %d is not ready", c.request.WatchId)
		}
	}
}

// TestLateComerBelowTheReplay: a watch that comes while the replay is far above it
// gets its events from where it stands, not from where the replay is.
func TestLateComerBelowTheReplay(t *testing.T) {
	w := known(t, Limits{ReplayEventsMax: 10})
	w.reads = true
	for range 3_000 {
		w.commit("k=v")
	}
	r := func(id uint64) *messages.WatchRequest {
		r := all(id)
		r.CreditEvents = 10_000
		return r
	}
	early := w.watch(1, r(1), protocol.EndOf(0))
	for range 50 {
		w.step()
	}
	late := w.watch(2, r(1), protocol.EndOf(0))
	near := w.watch(3, r(1), protocol.EndOf(2_950))
	for range 3 { // they read, and are given more
		w.settle()
		for session := range uint64(3) {
			w.drain(session + 1)
		}
	}
	w.settle()
	for _, c := range []*checker{early, late, near} {
		c.caughtUp()
	}
}

// TestNearWatchDoesNotWaitForLongReplay: who is a few revisions behind is not made
// to wait for who is a million behind.
func TestNearWatchDoesNotWaitForLongReplay(t *testing.T) {
	w := known(t, Limits{ReplayEventsMax: 10})
	for range 5_000 {
		w.commit("k=v")
	}
	w.watch(1, &messages.WatchRequest{WatchId: 1, Selector: exact("other")}, protocol.EndOf(0))
	w.step()
	w.step()
	near := w.watch(1, all(2), protocol.EndOf(4_995))
	for i := 0; !near.ready; i++ {
		if i > 5 {
			t.Fatal("it waits")
		}
		w.step()
	}
}

func TestLowWater(t *testing.T) {
	w := known(t, Limits{})
	if after, active := w.hub.LowWater(); active {
		t.Fatalf("nobody watches, but %d", after)
	}
	r := all(1)
	r.CreditEvents = 2
	c := w.watch(1, r, protocol.EndOf(0))
	w.watch(1, all(2), protocol.EndOf(100)) // waits for the future
	w.commit("a=1", "b=2", "c=3")
	if after, active := w.hub.LowWater(); after != 0 || !active {
		t.Fatalf("inside revision 1: %d %v", after, active)
	}
	w.grant(c, 100, 100)
	w.settle()
	w.commit("a=1")
	if after, _ := w.hub.LowWater(); after != 2 {
		t.Fatalf("caught up: %d", after)
	}
}

func TestStopEndsEveryWatch(t *testing.T) {
	w := known(t, Limits{})
	w.commit("k=1")
	live, future := w.watch(1, all(1), protocol.EndOf(1)), w.watch(1, all(2), protocol.EndOf(9))
	w.hub.Stop(messages.NewError(messages.Code_CODE_NODE_STOPPING, "stop"))
	w.collect()
	for _, c := range []*checker{live, future} {
		if c.endCode() != messages.Code_CODE_NODE_STOPPING {
			t.Fatalf("ended %v", c.end)
		}
	}
}

func TestGapBetweenCommitsIsReadFromTheLog(t *testing.T) {
	w := known(t, Limits{})
	c := w.watch(1, all(1), protocol.EndOf(0))
	w.commit("k=1")
	w.write("k=2")
	w.write("k=3")
	w.commit("k=4")
	w.settle()
	w.commit("k=5")
	c.caughtUp()
	defer func() {
		if recover() == nil {
			t.Fatal("revision 5 came twice, unnoticed")
		}
	}()
	w.committed(w.events[4:])
}
