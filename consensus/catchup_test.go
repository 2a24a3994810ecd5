package consensus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/concord-kv/concord/messages"
)

// paced is a catchUp in a time of its own. What it does is written down.
type paced struct {
	*catchUp
	at     time.Time
	told   []string
	breaks []func()
}

func newPaced() *paced {
	p := &paced{at: time.Unix(1000, 0)}
	p.catchUp = newCatchUp(1, func(all ...raftpb.Message) {
		for _, m := range all {
			p.told = append(p.told, fmt.Sprint(m.Type, " of ", m.From))
		}
	}, func(d time.Duration, f func()) {
		p.told = append(p.told, "break "+d.String())
		p.breaks = append(p.breaks, f)
	})
	p.now = func() time.Time { return p.at }
	return p
}

// took returns what was told since the last call.
func (p *paced) took() string {
	all := strings.Join(p.told, ", ")
	p.told = nil
	return all
}

// endBreaks is when the breaks that were begun are over.
func (p *paced) endBreaks() {
	for _, f := range p.breaks {
		f()
	}
	p.breaks = nil
}

// entries is a message with entries from first to last, of which those up to commit are
// committed.
func entries(to, first, last, commit uint64) raftpb.Message {
	m := raftpb.Message{Type: raftpb.Replicate, To: to, LogIndex: first - 1, Commit: commit}
	for i := first; i <= last; i++ {
		m.Entries = append(m.Entries, raftpb.Entry{Index: i})
	}
	return m
}

// sends returns the first and last entries of the messages that pass.
func (p *paced) sends(conn *batchConn, all ...raftpb.Message) string {
	var s []string
	for _, m := range p.pass(conn, nil, all) {
		s = append(s, fmt.Sprintf("%d-%d", m.LogIndex+1, m.LogIndex+uint64(len(m.Entries))))
	}
	return strings.Join(s, " ")
}

func holds(from, index uint64) raftpb.Message {
	return raftpb.Message{Type: raftpb.ReplicateResp, From: from, To: 1, LogIndex: index}
}

func alive(from, hint uint64) raftpb.Message {
	return raftpb.Message{Type: raftpb.HeartbeatResp, From: from, To: 1, Hint: hint}
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestOneMessageIsUnderWay: a member that is behind is sent one message; Raft is told to
// wait, and gets the answer after a break.
func TestOneMessageIsUnderWay(t *testing.T) {
	p, conn := newPaced(), &batchConn{}
	expect(t, "all at once", p.sends(conn, entries(3, 1, 5, 100), entries(3, 6, 9, 100), entries(2, 101, 101, 100)), "1-5 101-101")
	expect(t, "then", p.took(), "Unreachable of 3, Unreachable of 3")
	expect(t, "once more", p.sends(conn, entries(3, 1, 9, 101)), "")
	expect(t, "then", p.took(), "")
	p.at = p.at.Add(30 * time.Millisecond)
	if left := p.answered([]raftpb.Message{holds(2, 101), holds(3, 5)}); len(left) != 1 || left[0].From != 2 {
		t.Errorf("dragonboat gets %v", left)
	}
	expect(t, "an answer", p.took(), "break 50ms")
	expect(t, "in the break", p.sends(conn, entries(3, 6, 9, 101)), "")
	expect(t, "then", p.took(), "Unreachable of 3")
	p.endBreaks()
	expect(t, "after it", p.took(), "ReplicateResp of 3")
	expect(t, "the next", p.sends(conn, entries(3, 6, 9, 101)), "6-9")
	p.took()
	p.at = p.at.Add(90 * time.Millisecond)
	p.answered([]raftpb.Message{holds(3, 9)})
	expect(t, "a slow answer", p.took(), "break 90ms")
	p.endBreaks()
	expect(t, "Raft did not wait", p.took(), "ReplicateResp of 3, HeartbeatResp of 3")
}

// TestWhatIsLostIsSentAgain: after a while without an answer, on another connection, and
// when the member says that it lacks something.
func TestWhatIsLostIsSentAgain(t *testing.T) {
	p, conn, other := newPaced(), &batchConn{}, &batchConn{}
	again := entries(3, 1, 5, 100)
	expect(t, "first", p.sends(conn, again), "1-5")
	p.at = p.at.Add(answerWait)
	expect(t, "within the wait", p.sends(conn, again), "")
	p.at = p.at.Add(time.Millisecond)
	expect(t, "after it", p.sends(conn, again), "1-5")
	expect(t, "on another connection", p.sends(other, again), "1-5")
	p.forget(conn)
	expect(t, "the first connection has ended", p.sends(other, again), "")
	p.forget(other)
	expect(t, "the second too", p.sends(other, again), "1-5")
	no := holds(3, 0)
	no.Reject = true
	if left := p.answered([]raftpb.Message{no}); len(left) != 1 {
		t.Error("dragonboat does not hear that the member lacks something")
	}
	expect(t, "what it lacks", p.sends(other, again), "1-5")
}

// TestNoBreakForTheMemberThatIsNeeded: where nothing is committed without the member that
// is behind, it gets everything as fast as it takes it; and one that has caught up is
// like the others.
func TestNoBreakForTheMemberThatIsNeeded(t *testing.T) {
	p, conn := newPaced(), &batchConn{}
	p.sends(conn, entries(3, 1, 5, 100), entries(3, 101, 120, 100))
	p.took()
	p.at = p.at.Add(stuckAfter + time.Millisecond)
	p.answered([]raftpb.Message{holds(3, 5)})
	expect(t, "nothing is committed", p.took(), "break 0s")
	p.endBreaks()
	p.sends(conn, entries(3, 6, 9, 110))
	p.took()
	p.at = p.at.Add(time.Millisecond)
	p.answered([]raftpb.Message{holds(3, 9)})
	expect(t, "something was", p.took(), "break 50ms")
	if left := p.answered([]raftpb.Message{holds(3, 120), holds(3, 121)}); len(left) != 2 {
		t.Errorf("of the answers of a member that has caught up %d are held back", 2-len(left))
	}
}

// TestSignsOfLifePass: each one makes dragonboat send once more what is under way. A few
// are enough for it to see that a majority lives; those that a read waits for all pass.
func TestSignsOfLifePass(t *testing.T) {
	p, conn := newPaced(), &batchConn{}
	signs := func(of uint64, hint uint64) (n int) {
		for range 100 {
			n += len(p.answered([]raftpb.Message{alive(of, hint)}))
			p.at = p.at.Add(4 * time.Millisecond)
		}
		return n
	}
	if n := signs(3, 0); n != 100 {
		t.Errorf("of a member that is not behind %d of 100 pass", n)
	}
	p.sends(conn, entries(3, 1, 5, 100))
	if n := signs(3, 0); n != 4 {
		t.Errorf("within 400 ms %d pass, want 4", n)
	}
	if n := signs(3, 7); n != 100 {
		t.Errorf("of those that a read waits for %d of 100 pass", n)
	}
	if n := signs(2, 0); n != 100 {
		t.Errorf("of another member %d of 100 pass", n)
	}
}

// TestCatchesUpWithNothingElseGoingOn: a member that is thousands of entries behind gets
// them from a cluster that has nothing else to say to it.
func TestCatchesUpWithNothingElseGoingOn(t *testing.T) {
	members := map[uint64]string{1: loopback(t), 2: loopback(t), 3: loopback(t)}
	dirs := map[uint64]string{1: t.TempDir(), 2: t.TempDir(), 3: t.TempDir()}
	open := func(id uint64) Log {
		log, err := OpenDragonboat(DragonboatConfig{Dir: dirs[id], ReplicaID: id, RaftAddress: members[id], InitialMembers: members}, &words{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		return log
	}
	logs := map[uint64]Log{1: open(1), 2: open(2), 3: open(3)}
	for _, log := range logs {
		write(t, log, 1)
	}
	leader := logs[1].Status().LeaderID
	late := leader%3 + 1
	logs[late].Close()
	const entries, bytes = 6_000, 16 << 10 // three times of what is held in memory
	ends := make(chan error, entries)
	for range entries / 100 {
		for range 100 {
			logs[leader].Propose(make([]byte, bytes), 20*time.Second, func(_ []*messages.Result, err error) { ends <- err })
		}
		for range 100 {
			if err := <-ends; err != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	log := open(late)
	until(t, "the member that was away", func() bool {
		return log.Status().AppliedIndex == logs[leader].Status().AppliedIndex
	})
	t.Logf("%d entries, %d MiB, in %v", entries, entries*bytes>>20, time.Since(began))
}
