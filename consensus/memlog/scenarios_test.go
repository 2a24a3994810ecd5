package memlog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/concord-kv/concord/consensus/memlog"
	"github.com/concord-kv/concord/messages"
)

// scene is a world told step by step.
type scene struct {
	*world
	outcomes map[string]string
}

func newScene(t *testing.T, cfg memlog.Config, seed uint64) *scene {
	s := &scene{world: newWorld(t, seed, cfg), outcomes: map[string]string{}}
	n := cfg.Replicas
	if n == 0 {
		n = 3
	}
	for id := range uint64(n) {
		s.start(id + 1)
	}
	s.until("everybody ready", func() bool {
		for id := range uint64(n) {
			if s.c.Replica(id+1).WaitReady(t.Context()) != nil {
				return false
			}
		}
		return true
	})
	return s
}

func (s *scene) until(what string, cond func() bool) {
	s.t.Helper()
	if !s.c.Until(1000, cond) {
		s.t.Fatalf("waiting for %s in vain", what)
	}
}

func (s *scene) put(id uint64, payload string, ticks int) {
	s.c.Replica(id).Propose([]byte(payload), time.Duration(ticks)*20*time.Millisecond, func(_ []*messages.Result, err error) {
		if s.outcomes[payload] != "" {
			s.t.Errorf("%s was answered twice", payload)
		}
		if s.outcomes[payload] = "applied"; err != nil {
			s.outcomes[payload] = fmt.Sprintf("%s, %s", messages.CodeName(messages.CodeOf(err)), messages.OutcomeName(messages.OutcomeOf(err)))
		}
	})
}

func (s *scene) want(payload, outcome string) {
	s.t.Helper()
	if got := s.outcomes[payload]; got != outcome {
		s.t.Fatalf("%s ended as %q, want %q", payload, got, outcome)
	}
}

func (s *scene) applied(id uint64, payload string) bool {
	for _, p := range s.journals[id].all {
		if p == payload {
			return true
		}
	}
	return false
}

// lead makes replica id the leader.
func (s *scene) lead(id uint64) {
	s.t.Helper()
	for range 20 {
		if s.c.Leader() == id {
			return
		}
		s.c.Elect(id)
		s.c.Advance(1)
	}
	s.t.Fatalf("replica %d does not come to lead", id)
}

func TestAnswersAsTold(t *testing.T) {
	s := newScene(t, memlog.Config{Replicas: 1}, 1)
	s.c.Answer(1, memlog.Refused, memlog.Dropped, memlog.Lost, memlog.Forgotten, memlog.Normal)
	for _, p := range []string{"refused", "dropped", "lost", "forgotten", "normal"} {
		s.put(1, p, 10)
	}
	s.want("refused", "overloaded, not_applied")
	s.c.Settle()
	s.want("dropped", "no_leader, not_applied")
	s.want("normal", "applied")
	s.want("forgotten", "")
	s.c.Advance(11)
	s.want("lost", "timeout, unknown")
	s.want("forgotten", "timeout, unknown")
	for p, want := range map[string]bool{"refused": false, "dropped": false, "lost": false, "forgotten": true, "normal": true} {
		if s.applied(1, p) != want {
			t.Errorf("%s: applied is %t", p, !want)
		}
	}
}

func TestCrashLosesWhatWasNotSynced(t *testing.T) {
	s := newScene(t, memlog.Config{Replicas: 1}, 2)
	s.put(1, "synced", 100)
	s.c.Settle()
	s.want("synced", "applied")
	s.c.StallDisk(1)
	s.put(1, "unsynced", 100)
	s.c.Settle()
	s.want("unsynced", "")
	s.c.Crash(1)
	s.c.ResumeDisk(1)
	s.start(1)
	s.until("replay", func() bool { return s.c.Replica(1).WaitReady(t.Context()) == nil })
	if !s.applied(1, "synced") || s.applied(1, "unsynced") {
		t.Fatalf("after the crash there is %v", s.journals[1].all)
	}
	s.want("unsynced", "") // whoever waited is gone with the process
}

// Power that fails in the middle of a sync leaves nothing of it, some, or all.
func TestTornSync(t *testing.T) {
	found := map[int]int{}
	for seed := range uint64(40) {
		s := newScene(t, memlog.Config{Replicas: 1}, seed)
		s.put(1, "synced", 100)
		s.c.Settle()
		s.c.StallDisk(1)
		s.put(1, "first", 100)
		s.put(1, "second", 100)
		s.c.Settle()
		s.c.Tear(1)
		s.c.ResumeDisk(1)
		s.start(1)
		s.until("replay", func() bool { return s.c.Replica(1).WaitReady(t.Context()) == nil })
		if all := s.journals[1].all; len(all) == 0 || all[0] != "synced" || len(all) > 1 && all[1] != "first" {
			t.Fatalf("seed %d: after the crash there is %v", seed, all)
		}
		found[len(s.journals[1].all)]++
	}
	if found[1] == 0 || found[2] == 0 || found[3] == 0 {
		t.Fatalf("how much was there: %v", found)
	}
}

// A full disk ends the replica at its next sync, with a reason; with room it comes back
// with what was synced.
func TestFullDiskEndsTheReplica(t *testing.T) {
	s := newScene(t, memlog.Config{Replicas: 1}, 3)
	s.put(1, "synced", 100)
	s.c.Settle()
	s.c.FillDisk(1)
	if s.c.Replica(1).RequestSnapshot(0) == nil {
		t.Fatal("a snapshot was saved on a full disk")
	}
	s.put(1, "no room", 100)
	s.c.Settle()
	if s.c.Replica(1) != nil || s.c.Failed(1) == nil {
		t.Fatal("the replica goes on")
	}
	s.want("no room", "") // nobody is told
	s.c.FreeDisk(1)
	s.start(1)
	s.until("replay", func() bool { return s.c.Replica(1).WaitReady(t.Context()) == nil })
	if s.c.Failed(1) != nil || !s.applied(1, "synced") || s.applied(1, "no room") {
		t.Fatalf("after the restart there is %v", s.journals[1].all)
	}
}

func TestDeposedLeader(t *testing.T) {
	s := newScene(t, memlog.Config{}, 3)
	s.lead(1)
	s.c.Isolate(1)
	s.put(1, "minority", 5)
	s.until("a new leader", func() bool { return s.c.Leader() != 1 })
	s.want("minority", "timeout, unknown")
	s.until("the old one to step down", func() bool { return s.c.Replica(1).Status().LeaderID == 0 })
	s.put(1, "leaderless", 50)
	s.c.Settle()
	s.want("leaderless", "no_leader, not_applied")
	s.put(s.c.Leader(), "majority", 50)
	s.c.Settle()
	s.want("majority", "applied")
	s.c.Heal()
	s.until("the old one to catch up", func() bool { return s.applied(1, "majority") })
	if s.applied(1, "minority") || s.applied(1, "leaderless") {
		t.Fatalf("replica 1 has %v", s.journals[1].all)
	}
}

// A leader that can send but not hear is replaced; a follower that can hear but not
// send, or the other way round, does not depose anybody.
func TestOneWayCuts(t *testing.T) {
	s := newScene(t, memlog.Config{}, 4)
	s.lead(1)
	s.c.Cut(2, 1)
	s.c.Cut(3, 1)
	s.until("a deaf leader to be replaced", func() bool { return s.c.Leader() != 1 })
	s.c.Heal()
	s.lead(1)
	term := s.c.Replica(1).Status().Term
	s.c.Cut(1, 3) // 3 hears nothing of the leader and asks for votes
	s.c.Advance(200)
	if now := s.c.Replica(1).Status(); now.Term != term || now.LeaderID != 1 {
		t.Fatalf("a follower that is cut off changed %d to %+v", term, now)
	}
	s.put(2, "meanwhile", 50)
	s.c.Settle()
	s.want("meanwhile", "applied")
}

// A leader whose disk hangs is replaced, and finds out when the disk goes on.
func TestStalledLeader(t *testing.T) {
	s := newScene(t, memlog.Config{}, 5)
	s.lead(1)
	s.c.StallDisk(1)
	s.put(1, "stalled", 30)
	s.until("a new leader", func() bool { return s.c.Leader() != 1 })
	s.until("the deadline", func() bool { return s.outcomes["stalled"] != "" })
	s.want("stalled", "timeout, unknown")
	// Its followers had the entry before its own disk did, so that it survived.
	if !s.applied(s.c.Leader(), "stalled") {
		t.Fatal("the entry should have survived: it was sent beside the sync")
	}
	s.c.ResumeDisk(1)
	s.until("the old leader to follow", func() bool {
		return s.c.Replica(1).Status().LeaderID == s.c.Leader() && s.applied(1, "stalled")
	})
}

// Being leader does not mean having applied: the barrier waits.
func TestLeaderThatHasNotApplied(t *testing.T) {
	s := newScene(t, memlog.Config{}, 6)
	s.lead(1)
	s.c.HoldApply(2)
	s.put(1, "old", 50)
	s.c.Settle()
	s.want("old", "applied")
	s.lead(2)
	reached := ""
	s.c.Replica(2).ReadIndex(100*20*time.Millisecond, func(err error) { reached = fmt.Sprint(err) })
	s.c.Advance(20)
	if s.applied(2, "old") || reached != "" {
		t.Fatalf("the barrier ended with %q before anything was applied", reached)
	}
	s.c.ReleaseApply(2)
	s.c.Advance(2)
	if !s.applied(2, "old") || reached != "<nil>" {
		t.Fatalf("the barrier ended with %q", reached)
	}
}

// A pause is not noticed by the paused: it still thinks that it leads.
func TestPausedLeader(t *testing.T) {
	s := newScene(t, memlog.Config{}, 7)
	s.lead(1)
	s.c.Pause(1)
	s.until("a new leader", func() bool { return s.c.Leader() != 1 })
	if st := s.c.Replica(1).Status(); st.LeaderID != 1 {
		t.Fatalf("the paused replica knows of leader %d", st.LeaderID)
	}
	ended := false
	s.c.Replica(1).ReadIndex(time.Second, func(err error) {
		if ended = true; err == nil && !s.applied(1, "new") {
			t.Error("the barrier was passed on the word of a leader that was replaced")
		}
	})
	s.put(s.c.Leader(), "new", 50)
	s.c.Settle()
	s.c.Resume(1)
	s.until("it to follow", func() bool { return s.applied(1, "new") })
	s.until("the barrier to end", func() bool { return ended })
}

// Every replica applies the same entries in batches of its own.
func TestBatchesDiffer(t *testing.T) {
	s := newScene(t, memlog.Config{}, 8)
	for i := range 200 {
		s.put(1, fmt.Sprint("b", i), 200)
	}
	s.until("everything applied", func() bool {
		return len(s.journals[1].all) == 200 && len(s.journals[2].all) == 200 && len(s.journals[3].all) == 200
	})
	if fmt.Sprint(s.journals[1].indexes) != fmt.Sprint(s.journals[2].indexes) {
		t.Fatal("indexes differ")
	}
	if fmt.Sprint(s.journals[1].batches) == fmt.Sprint(s.journals[2].batches) {
		t.Fatal("batches do not differ")
	}
}

// Removing replicas down to one, over a leader that removes itself.
func TestMembersGo(t *testing.T) {
	s := newScene(t, memlog.Config{}, 9)
	s.lead(1)
	remove := func(at, id uint64) {
		t.Helper()
		end := "nothing"
		s.c.Replica(at).RemoveReplica(id, 0, 2*time.Second, func(err error) { end = fmt.Sprint(err) })
		s.until("the change", func() bool { return end != "nothing" })
		if end != "<nil>" {
			t.Fatalf("removing %d: %s", id, end)
		}
	}
	remove(1, 3)
	s.until("replica 3 to know", func() bool {
		return messages.CodeOf(s.c.Replica(3).WaitReady(t.Context())) == messages.Code_CODE_NODE_STOPPING
	})
	remove(2, 1) // the leader removes itself
	s.until("replica 2 to lead", func() bool { return s.c.Replica(2).Status().LeaderID == 2 })
	s.put(2, "alone", 50)
	s.c.Settle()
	s.want("alone", "applied")
	end := "nothing"
	s.c.Replica(2).RemoveReplica(2, 0, 2*time.Second, func(err error) { end = messages.CodeName(messages.CodeOf(err)) })
	s.until("the refusal", func() bool { return end != "nothing" })
	if end != "invalid_argument" {
		t.Fatalf("removing the last replica: %s", end)
	}
}
